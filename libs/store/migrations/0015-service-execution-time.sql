-- Replaces: c91f827ae5e45addeaf09c7fabfe109dbce3b576384f5e5fa0b55292a1382c62
-- The former content made the same, with checks that read every row under a lock.
-- What the vendor itself says that the run took, as it came, in its own unit: AgentCore's `executionTime` is in seconds where it was measured,
-- though documented as milliseconds. What we measured is duration_ms. Null: it said nothing, or recorded before this.
alter table sandbox_invocations
  add column service_execution_time double precision,
  add constraint sandbox_invocations_service_execution_time_check check (service_execution_time >= 0) not valid;
