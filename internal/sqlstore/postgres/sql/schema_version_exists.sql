SELECT to_regclass('__alkstore_schema') IS NOT NULL;
