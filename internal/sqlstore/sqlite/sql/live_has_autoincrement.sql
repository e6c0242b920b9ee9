SELECT EXISTS (
    SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = '__alkstore_live' AND sql LIKE '%AUTOINCREMENT%'
);
