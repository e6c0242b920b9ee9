-- Until the transaction ends, names without a schema mean the store's: the steps of the schema are written so.
SELECT set_config('search_path', quote_ident(CAST(:schema AS text)), true);
