-- Whether programs may run in an emulated machine, which is no boundary. Equals contract, DEFAULT_TENANT_RULES.
alter table tenants add column allow_emulation boolean not null default false;

-- Every part of a policy, as in 0022.
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
  'templates', t.templates,
  'max_artifact_bytes', t.max_artifact_bytes,
  'max_artifacts_total_bytes', t.max_artifacts_total_bytes,
  'max_artifact_count', t.max_artifact_count,
  'run_sessions', t.run_sessions,
  'keep_program', t.keep_program,
  'allow_emulation', t.allow_emulation,
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

-- As in 0022, for every part.
create or replace function record_tenant_change() returns trigger
  language plpgsql
  security definer
  set search_path = public, pg_temp
as $$
declare
  who text := coalesce(nullif(current_setting('app.actor', true), ''), session_user);
  how text := coalesce(nullif(current_setting('app.source', true), ''), 'sql');
  was jsonb;
  now_is jsonb;
  part text;
begin
  if tg_op = 'INSERT' then
    insert into tenant_policy_events (tenant_id, actor, event_type, after, source)
    values (new.tenant_id, who, 'created', without_secrets(tenant_facts(new)), how);
    return null;
  end if;
  if tg_op = 'DELETE' then
    insert into tenant_policy_events (tenant_id, actor, event_type, before, source)
    values (old.tenant_id, who, 'deleted', without_secrets(tenant_facts(old)), how);
    return null;
  end if;
  was := tenant_facts(old);
  now_is := tenant_facts(new);
  -- Tier first: it is what switches the sandbox off.
  foreach part in array array[
    'compliance_tier', 'sandbox_enabled', 'min_isolation', 'environments', 'retention_days', 'output_retention_days', 'redact',
    'network', 'packages', 'commands', 'encrypt_outputs', 'templates', 'max_artifact_bytes', 'max_artifacts_total_bytes',
    'max_artifact_count', 'run_sessions', 'keep_program', 'allow_emulation', 'caps'
  ] loop
    if was -> part is distinct from now_is -> part then
      insert into tenant_policy_events (tenant_id, actor, event_type, before, after, source)
      values (new.tenant_id, who, part, without_secrets(was) -> part, without_secrets(now_is) -> part, how);
    end if;
  end loop;
  return null;
end
$$;
