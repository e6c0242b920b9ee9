CREATE TABLE IF NOT EXISTS __alkstore_schema (
    one     integer PRIMARY KEY CHECK (one = 1),
    version integer NOT NULL
);
