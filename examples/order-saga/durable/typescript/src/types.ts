// Made by `mundi program build` from mundi.json. Changes here are lost.

export interface Order {
  "cents": number;
  "quantity": number;
  "sku": string;
}

export interface PaymentCharge {
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
  "order": Order;
}

/** Queries that the program answers. */
export interface Queries {
  "totals": unknown;
}

/** Effects that the program requests. */
export interface Effects {
  "payment.charge": { params: PaymentCharge; receipt: PaymentChargeReceipt };
  "payment.refund": { params: PaymentRefund; receipt: unknown };
  "stock.reserve": { params: StockReserve; receipt: unknown };
}
