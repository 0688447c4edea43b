# Made by `mundi program build` from mundi.json. Changes here are lost.

from typing import Any, Literal, NotRequired, Optional, TypedDict

Cancel = TypedDict("Cancel", {
    "order": str,
})

Place = TypedDict("Place", {
    "cents": int,
    "order": str,
    "quantity": int,
    "sku": str,
})

OrderQuery = TypedDict("OrderQuery", {
    "order": str,
})

OrdersQuery = TypedDict("OrdersQuery", {
    "after": NotRequired[str],
})

PaymentCharge = TypedDict("PaymentCharge", {
    "attempt": int,
    "cents": int,
    "order": str,
})

PaymentChargeReceipt = TypedDict("PaymentChargeReceipt", {
    "charge": str,
})

PaymentRefund = TypedDict("PaymentRefund", {
    "charge": str,
    "order": str,
})

StockReserve = TypedDict("StockReserve", {
    "order": str,
    "quantity": int,
    "sku": str,
})

# Events that the program accepts.
Event = Literal["cancel", "place"]

# Queries that the program answers.
Query = Literal["order", "orders", "totals"]

# Effects that the program requests.
Effect = Literal["payment.charge", "payment.refund", "stock.reserve"]
