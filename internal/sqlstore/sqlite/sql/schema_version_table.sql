CREATE TABLE IF NOT EXISTS __alkstore_schema (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL
);
