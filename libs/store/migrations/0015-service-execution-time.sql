-- What the vendor itself says that the run took, as it came, in its own unit: AgentCore's `executionTime` is in seconds where it was measured,
-- though documented as milliseconds. What we measured is duration_ms. Null: it said nothing, or recorded before this.
alter table sandbox_invocations
  add column service_execution_time double precision check (service_execution_time >= 0);
