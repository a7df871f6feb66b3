-- Replaces: 0f0530bad895f96f103ccaf67a11f0f513eacb715aa405c08e43cb092db12c32
-- The former content made the same, with checks that read every row under a lock.
-- The most that a request of the tenant may ask for by its artifact limits: from what every request may have to what any may (contract
-- DEFAULT_LIMITS and MAX_LIMITS).
alter table tenants
  add column max_artifact_bytes integer not null default 8388608
    check (max_artifact_bytes between 8388608 and 67108864),
  add column max_artifacts_total_bytes integer not null default 16777216
    check (max_artifacts_total_bytes between 16777216 and 536870912),
  add column max_artifact_count integer not null default 256 check (max_artifact_count between 256 and 4096);

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
  'max_artifact_bytes', t.max_artifact_bytes,
  'max_artifacts_total_bytes', t.max_artifacts_total_bytes,
  'max_artifact_count', t.max_artifact_count,
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
    'output_retention_days', 'redact', 'caps', 'network', 'packages', 'commands', 'encrypt_outputs', 'template',
    'max_artifact_bytes', 'max_artifacts_total_bytes', 'max_artifact_count'
  )
) not valid;
