# Made by `mundi program build` from mundi.json. Changes here are lost.

from typing import Any, Literal, NotRequired, Optional, TypedDict

Order = TypedDict("Order", {
    "cents": int,
    "quantity": int,
    "sku": str,
})

PaymentCharge = TypedDict("PaymentCharge", {
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
Event = Literal["order"]

# Queries that the program answers.
Query = Literal["totals"]

# Effects that the program requests.
Effect = Literal["payment.charge", "payment.refund", "stock.reserve"]
