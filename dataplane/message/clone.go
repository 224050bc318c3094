package message

// Clone is a copy of the head that owns its bytes.
func (r *Request) Clone() Request {
	clone := *r
	size := len(r.MethodName) + len(r.Target) + len(r.Authority) + len(r.Host) + len(r.Path) + len(r.Query) + len(r.Upgrade)
	for i := range r.Fields.list {
		size += len(r.Fields.list[i].Name) + len(r.Fields.list[i].Value)
	}
	store := make([]byte, 0, size)
	keep := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		start := len(store)
		store = append(store, b...)
		return store[start:len(store):len(store)]
	}
	for _, b := range [...]*[]byte{&clone.MethodName, &clone.Target, &clone.Authority, &clone.Host, &clone.Path, &clone.Query, &clone.Upgrade} {
		*b = keep(*b)
	}
	clone.Fields.list = make([]Field, len(r.Fields.list))
	for i, f := range r.Fields.list {
		clone.Fields.list[i] = Field{Name: keep(f.Name), Value: keep(f.Value), ID: f.ID}
	}
	return clone
}
