-- Replaces: 6babbaf124849b5aeeb933ad1ceaa11b2850e54010188fcc1a3bc3f1027da195
-- Replaces: 6eaa1171af173873d7e878a04b10ce7123c0c7a26ebf82be115d98f890b00656
-- The former content made the same, with checks that read every row under a lock.
-- So did another one, which took the tables in another order than writers and so could not get both.
-- Which programs are kept when they end, so that they can be run again. Equals contract, DEFAULT_TENANT_RULES.
alter table tenants add column keep_program text not null default 'never'
  check (keep_program in ('never', 'errors', 'always'));

-- NOT VALID here and below: new rows are checked, and old ones, which are all null, are not read.
-- The execution that an execution runs again. Null: it is no rerun.
alter table sandbox_invocations add column rerun_of text;
alter table sandbox_invocations add constraint sandbox_invocations_rerun_of_check
  check (rerun_of ~ '^exe_[0-9a-f]{32}$') not valid;

-- Where the request of an attempt stands in the blob store. Null: it was not kept.
alter table results add column request_ref text;
alter table results add constraint results_request_ref_check check (length(request_ref) <= 512) not valid;

-- Every part of a policy, as in 0021.
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
    'output_retention_days', 'redact', 'caps', 'network', 'packages', 'commands', 'encrypt_outputs', 'templates', 'template',
    'max_artifact_bytes', 'max_artifacts_total_bytes', 'max_artifact_count', 'run_sessions',
    'keep_program'
  )
) not valid;

-- As in 0017, for every part.
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
    'max_artifact_count', 'run_sessions', 'keep_program', 'caps'
  ] loop
    if was -> part is distinct from now_is -> part then
      insert into tenant_policy_events (tenant_id, actor, event_type, before, after, source)
      values (new.tenant_id, who, part, without_secrets(was) -> part, without_secrets(now_is) -> part, how);
    end if;
  end loop;
  return null;
end
$$;
