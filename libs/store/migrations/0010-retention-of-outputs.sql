-- Replaces: 69dd48ad869317444793916d94f74619dc18724cfdcf505f5d7f3ef27cb5d264
-- The former content made the same, with checks that read every row under a lock.
-- How long full outputs and artifacts are kept where that is shorter than the rows. Null: as long as these.
alter table tenants add column output_retention_days smallint check (output_retention_days between 1 and 180);

create or replace function tenant_facts(t tenants) returns jsonb
  language sql
  stable
return jsonb_build_object(
  'compliance_tier', t.compliance_tier,
  'sandbox_enabled', t.sandbox_enabled,
  'min_isolation', t.min_isolation,
  'environments', t.environments,
  'retention_days', t.retention_days,
  'output_retention_days', t.output_retention_days,
  'redact', t.redact,
  'network', t.network,
  'packages', t.packages,
  'commands', t.commands,
  'encrypt_outputs', t.encrypt_outputs,
  'caps', jsonb_build_object(
    'tenant_daily', t.tenant_daily,
    'agent_hourly', t.agent_hourly,
    'agents', t.agents,
    'concurrency', t.concurrency,
    'max_queued', t.max_queued,
    'weight', t.weight,
    'rate_per_second', t.rate_per_second,
    'burst', t.burst,
    'tenant_daily_cpu_seconds', t.tenant_daily_cpu_seconds,
    'tenant_daily_cost', t.tenant_daily_cost
  )
);

alter table tenant_policy_events drop constraint tenant_policy_events_event_type_check;
alter table tenant_policy_events add constraint tenant_policy_events_event_type_check check (
  event_type in (
    'created', 'deleted', 'compliance_tier', 'sandbox_enabled', 'min_isolation', 'environments', 'retention_days',
    'output_retention_days', 'redact', 'caps', 'network', 'packages', 'commands', 'encrypt_outputs', 'template'
  )
) not valid;
