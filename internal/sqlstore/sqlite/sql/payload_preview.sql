SELECT substr(payload, 1, :payload_limit) FROM __alkstore_payloads WHERE id = :id;
