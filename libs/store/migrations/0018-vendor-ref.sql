-- Replaces: 36062eb8b67f48a14b8440fa13f51d0a8354122d0e729b10ad1643f3b90e1c33
-- The former content made the same, with checks that read every row under a lock.
-- What a vendor's own logs call the sandbox that an attempt ran in, so that both can be joined. Null: no vendor's, or recorded before this.
alter table sandbox_invocations
  add column vendor_ref text,
  add constraint sandbox_invocations_vendor_ref_check check (length(vendor_ref) <= 256) not valid;
