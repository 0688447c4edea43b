// Made by `mundi program build` from mundi.json. Changes here are lost.

export interface Cancel {
  "order": string;
}

export interface Place {
  "cents": number;
  "order": string;
  "quantity": number;
  "sku": string;
}

export interface OrderQuery {
  "order": string;
}

export interface OrdersQuery {
  "after"?: string;
}

export interface PaymentCharge {
  "attempt": number;
  "cents": number;
  "order": string;
}

export interface PaymentChargeReceipt {
  "charge": string;
}

export interface PaymentRefund {
  "charge": string;
  "order": string;
}

export interface StockReserve {
  "order": string;
  "quantity": number;
  "sku": string;
}

/** Events that the program accepts. */
export interface Events {
  "cancel": Cancel;
  "place": Place;
}

/** Queries that the program answers. */
export interface Queries {
  "order": OrderQuery;
  "orders": OrdersQuery;
  "totals": unknown;
}

/** Effects that the program requests. */
export interface Effects {
  "payment.charge": { params: PaymentCharge; receipt: PaymentChargeReceipt };
  "payment.refund": { params: PaymentRefund; receipt: unknown };
  "stock.reserve": { params: StockReserve; receipt: unknown };
}
