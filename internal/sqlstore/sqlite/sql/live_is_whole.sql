-- Whether the live table of an older file has what cannot be added to a table: AUTOINCREMENT (E1), and the defaults that
-- enqueue_many.sql leaves to it.
SELECT EXISTS (
    SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = '__alkstore_live' AND sql LIKE '%AUTOINCREMENT%'
) AND 2 = (
    SELECT count(*) FROM pragma_table_info('__alkstore_live')
    WHERE name = 'state' AND dflt_value = '''pending''' OR name = 'attempts' AND dflt_value = '0'
);
