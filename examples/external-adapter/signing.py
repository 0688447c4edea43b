"""Signs receipts of external workers with Ed25519 (RFC 8032), with nothing but the standard library.

    python3 signing.py public SEED            prints the public key of a secret seed (both 64 hex digits)
    python3 signing.py sign SEED FIELDS       prints the signature of a statement, given as a JSON list of its fields

Slow, and not hardened against whoever can measure its time: where a package is at hand, use that (`cryptography`, PyNaCl).
"""
import hashlib, json, sys

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P


def cbor(value):
    """Canonical CBOR of what JSON can say without fractions."""
    if value is None or isinstance(value, bool):
        return {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[value]
    if isinstance(value, int):
        return head(0x00, value) if value >= 0 else head(0x20, -1 - value)
    if isinstance(value, str):
        return head(0x60, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return head(0x80, len(value)) + b"".join(map(cbor, value))
    entries = sorted((cbor(key), cbor(value)) for key, value in value.items())  # the shorter key first
    return head(0xA0, len(entries)) + b"".join(key + value for key, value in entries)


def head(major, n):
    if n < 24:
        return bytes([major | n])
    size = next(size for size in (1, 2, 4, 8) if n < 1 << 8 * size)
    return bytes([major | {1: 24, 2: 25, 4: 26, 8: 27}[size]]) + n.to_bytes(size, "big")


def statement(universe, world, intent, kind, status, payload, adapter):
    """The bytes that are signed: canonical CBOR of a list of eight texts."""
    return cbor(["mundi.receipt.1", universe, world, intent, kind, status, payload, adapter])


def payload_hash(value):
    """Names a payload by its canonical CBOR."""
    return "h_" + hashlib.sha256(cbor(value)).hexdigest()


def add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def multiply(n, point):
    sum = (0, 1, 1, 0)
    while n:
        if n & 1:
            sum = add(sum, point)
        point, n = add(point, point), n >> 1
    return sum


def base():
    y = 4 * pow(5, P - 2, P) % P
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    x = P - x if x & 1 else x
    return x, y, 1, x * y % P


def compress(point):
    inverse = pow(point[2], P - 2, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def expand(seed):
    digest = hashlib.sha512(seed).digest()
    scalar = int.from_bytes(digest[:32], "little") & ((1 << 254) - 8) | 1 << 254
    return scalar, digest[32:]


def public(seed):
    return compress(multiply(expand(seed)[0], base()))


def sign(seed, message):
    scalar, prefix = expand(seed)
    number = lambda *parts: int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % L
    r = number(prefix, message)
    point = compress(multiply(r, base()))
    s = (r + number(point, compress(multiply(scalar, base())), message) * scalar) % L
    return point + s.to_bytes(32, "little")


if __name__ == "__main__":
    seed = bytes.fromhex(sys.argv[2])
    print((public(seed) if sys.argv[1] == "public" else sign(seed, statement(*json.loads(sys.argv[3])))).hex())
