-- Where names without a schema go; NULL if that is nowhere.
SELECT current_schema();
