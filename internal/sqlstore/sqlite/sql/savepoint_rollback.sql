ROLLBACK TO __alkstore;
