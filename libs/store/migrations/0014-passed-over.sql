-- Replaces: 13d3856f3784ea22c26a7d4b7e63c6deddc6122f29b763dea3739c4d7bf7b598
-- The former content made the same, with checks that read every row under a lock.
-- Backends that were preferred and could not open a sandbox, each with the word for why: `gvisor backend_unavailable, docker circuit_open`.
-- Null: none was passed over, or recorded before this.
alter table sandbox_invocations
  add column passed_over text,
  add constraint sandbox_invocations_passed_over_check check (length(passed_over) <= 512) not valid;
