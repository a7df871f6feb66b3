-- What a vendor's own logs call the sandbox that an attempt ran in, so that both can be joined. Null: no vendor's, or recorded before this.
alter table sandbox_invocations
  add column vendor_ref text check (length(vendor_ref) <= 256);
