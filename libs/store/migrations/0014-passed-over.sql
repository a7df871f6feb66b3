-- Backends that were preferred and could not open a sandbox, each with the word for why: `gvisor backend_unavailable, docker circuit_open`.
-- Null: none was passed over, or recorded before this.
alter table sandbox_invocations add column passed_over text check (length(passed_over) <= 512);
