-- Breaking: processes of before read no tenant that has columns they do not know, and refuse its executions until replaced.
-- (Those from this version on leave unknown columns alone.)
-- Replaces: c566d4aa73535e4fd9e2c4e222ce49f25cf1a35bbd02c8a1533e8ff5779d558a
-- The former content made the same, with checks that read every row under a lock.
-- What attempts are charged beside being counted, caps on it, and templates in the policy events.

-- Null: no cap. A cap of 0 is the kill switch, as of the others. Cost is in micro-units (libs/contract/src/price.ts).
alter table tenants
  add column tenant_daily_cpu_seconds integer check (tenant_daily_cpu_seconds between 0 and 1000000000),
  add column tenant_daily_cost bigint check (tenant_daily_cost between 0 and 1000000000000000);

-- Null: not charged, or recorded before this. cpu_ms stays what was measured; charged_cpu_ms is run time × cpus where
-- nothing was, and never more than was reserved.
-- NOT VALID: new rows are checked, and old ones, which are all null, are not read.
alter table sandbox_invocations
  add column charged_cpu_ms bigint,
  add column charged_gb_seconds double precision,
  add column cost bigint,
  add constraint sandbox_invocations_charged_cpu_ms_check check (charged_cpu_ms >= 0) not valid,
  add constraint sandbox_invocations_charged_gb_seconds_check check (charged_gb_seconds >= 0) not valid,
  add constraint sandbox_invocations_cost_check check (cost >= 0) not valid,
  add constraint only_charged_costs
    check (quota_charged or num_nonnulls(charged_cpu_ms, charged_gb_seconds, cost) = 0) not valid;

create or replace function tenant_facts(t tenants) returns jsonb
  language sql
  stable
return jsonb_build_object(
  'compliance_tier', t.compliance_tier,
  'sandbox_enabled', t.sandbox_enabled,
  'min_isolation', t.min_isolation,
  'environments', t.environments,
  'retention_days', t.retention_days,
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
    'redact', 'caps', 'network', 'packages', 'commands', 'encrypt_outputs', 'template'
  )
) not valid;

-- A template opts agents into sandboxing: that is policy, whoever writes it.
create function template_facts(t templates) returns jsonb
  language sql
  stable
return jsonb_build_object(
  'template_id', t.template_id,
  'environment', t.sandbox_environment,
  'network', t.network,
  'min_isolation', t.min_isolation,
  'retention_days', t.retention_days,
  'encrypt_outputs', t.encrypt_outputs
);

create function record_template_change() returns trigger
  language plpgsql
  security definer
  set search_path = public, pg_temp
as $$
declare
  who text := coalesce(nullif(current_setting('app.actor', true), ''), session_user);
  how text := coalesce(nullif(current_setting('app.source', true), ''), 'sql');
  was jsonb := case when tg_op <> 'INSERT' then template_facts(old) end;
  now_is jsonb := case when tg_op <> 'DELETE' then template_facts(new) end;
begin
  if was is distinct from now_is then
    insert into tenant_policy_events (tenant_id, actor, event_type, before, after, source)
    values (case when tg_op = 'DELETE' then old.tenant_id else new.tenant_id end, who, 'template', was, now_is, how);
  end if;
  return null;
end
$$;
create trigger record_template_change after insert or update or delete on templates
  for each row execute function record_template_change();
alter table templates enable always trigger record_template_change;
