-- The shop adds rows here, and nobody else: that is what reading them by a number that grows asks for.
CREATE TABLE orders (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  customer text NOT NULL,
  item text NOT NULL,
  quantity integer NOT NULL,
  price_cents integer NOT NULL,
  placed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- A total that is no integer cannot be written: its invoice is a dead letter.
CREATE TABLE invoices (
  order_id bigint PRIMARY KEY,
  customer text NOT NULL,
  item text NOT NULL,
  quantity integer NOT NULL,
  total_cents integer NOT NULL,
  written_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
