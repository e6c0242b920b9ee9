package storetest

import (
	"bytes"
	"fmt"

	"github.com/alkstore/alkworker/internal/sqlstore"
)

func payloadRules() []rule {
	return []rule{
		{name: "E7_any_bytes_are_kept_exactly", test: anyBytes},
		{name: "E7_no_payload_is_an_empty_one", test: noPayload},
		{name: "E7_the_callers_buffer_is_its_own", test: callersBuffer},
	}
}

// payloads are bytes that text columns, C strings and size limits would break.
func payloads() map[string][]byte {
	var all [256]byte
	for i := range all {
		all[i] = byte(i)
	}
	p := map[string][]byte{
		"empty": {}, "NUL": {0}, "NULs": []byte("a\x00b\x00\x00"), "invalid UTF-8": []byte("\xff\xfe\xc3\x28\xed\xa0\x80"),
		"every byte": all[:], "JSON": []byte(`{"a": "é\u0000", "n": 1e400}`), "quotes": []byte(`'";--` + "\n\r"),
		"digits": []byte("0123"), "hex": []byte("x'00'"), "1 MiB": bytes.Repeat(all[:], 1<<12),
	}
	for _, n := range []int{1, 1023, 1024, 1025, 4095, 4096, 4097, 65_535, 65_536} {
		p[fmt.Sprint(n, " bytes")] = append(bytes.Repeat([]byte{0xee}, n-1), 0)
	}
	return p
}

func anyBytes(e *env) {
	for name, payload := range payloads() {
		j := newJob(name)
		j.Payload = payload
		id := e.enqueueOne(j)
		check := func(where string, r sqlstore.Row) {
			e.Helper()
			if r.Payload == nil || !bytes.Equal(r.Payload, payload) || r.PayloadSize != int64(len(payload)) {
				e.Fatalf("payload %s %s: got %d bytes of %d, want %d, unchanged",
					name, where, len(r.Payload), r.PayloadSize, len(payload))
			}
		}
		check("as enqueued", e.get(id))
		r := e.claimOne(name)
		check("claimed", r)
		e.retry(sqlstore.Retrial{Handle: handle(r)})
		check("retried", e.get(id))
		r = e.claimOne(name)
		check("claimed again", r)
		same(e, "fail", e.fail(handle(r)), []bool{true})
		check("dead", e.get(id))
		same(e, "requeue", e.requeue(id), []bool{true})
		check("requeued", e.get(id))
		check("claimed after requeue", e.claimOne(name))
		page, err := e.store.ListJobs(e.Context(), sqlstore.Filter{Queue: name, Limit: 1, PayloadLimit: 1 << 30})
		e.ok(err)
		check("listed", page[0])
	}
}

func noPayload(e *env) {
	j := newJob("mail")
	j.Payload = nil
	id := e.enqueueOne(j)
	for where, r := range map[string]sqlstore.Row{"got": e.get(id), "claimed": e.claimOne("mail")} {
		if r.Payload == nil || len(r.Payload) != 0 || r.PayloadSize != 0 {
			e.Errorf("payload of a job without one, %s: got %#v of %d bytes, want an empty slice", where, r.Payload, r.PayloadSize)
		}
	}
}

func callersBuffer(e *env) {
	buf := []byte("first")
	j := newJob("mail")
	j.Payload = buf
	id := e.enqueueOne(j)
	copy(buf, "XXXXX")
	same(e, "payload after the caller reused its buffer", string(e.get(id).Payload), "first")
	r := e.get(id)
	copy(r.Payload, "YYYYY")
	*r.Stamps.DeadLetterRetentionS = 5
	claimed := e.claimOne("mail")
	copy(claimed.Payload, "ZZZZZ")
	*claimed.ClaimExpiresAt = 0
	*claimed.Stamps.DeadLetterRetentionS = 5
	now := e.get(id)
	same(e, "payload after the caller changed what it was given", string(now.Payload), "first")
	same(e, "deadline", *now.ClaimExpiresAt, e.now()+visibility)
	same(e, "retention", *now.Stamps.DeadLetterRetentionS, 1000)
}
