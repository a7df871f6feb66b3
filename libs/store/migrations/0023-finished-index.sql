-- Rows by the moment when they ended, for series by minute and shares of the last minute. The tenant is in
-- the index so that a tenant's series reads no row of another tenant.
-- ONLY takes no lock for long. The migrating process builds the index on the partitions that exist already,
-- one by one and while others write (src/partition-indexes.ts). New partitions have it from the start.
create index invocations_finished on only sandbox_invocations (finished_at, tenant_id);
