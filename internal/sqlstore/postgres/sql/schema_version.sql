SELECT version FROM __alkstore_schema WHERE one = 1;
