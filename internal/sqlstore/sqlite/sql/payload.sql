SELECT payload FROM __alkstore_payloads WHERE id = :id;
