-- Replaces: ca628a2088f947598715286dea8f6d8465628e735f23ab0cfd6c08d8a6222672
-- The former content made the same, with checks that read every row under a lock.
-- Who must run under which template: agents of a tenant by its policy, callers by their key. Before, whoever named no template ran under none.
alter table tenants add column templates jsonb not null default '{"required": false, "agents": {}}' check (
  coalesce(jsonb_typeof(templates -> 'required'), 'missing') = 'boolean'
  and coalesce(jsonb_typeof(templates -> 'agents'), 'missing') = 'object'
);

-- Null: the caller names its template itself.
alter table api_keys add column template_id text,
  add constraint bound_template foreign key (tenant_id, template_id) references templates,
  add constraint admin_keys_are_not_bound check (template_id is null or tenant_id is not null);

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
    'output_retention_days', 'redact', 'caps', 'network', 'packages', 'commands', 'encrypt_outputs', 'templates', 'template'
  )
) not valid;

-- As in 0006, for every part: 0010 left out output_retention_days.
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
    'network', 'packages', 'commands', 'encrypt_outputs', 'templates', 'caps'
  ] loop
    if was -> part is distinct from now_is -> part then
      insert into tenant_policy_events (tenant_id, actor, event_type, before, after, source)
      values (new.tenant_id, who, part, without_secrets(was) -> part, without_secrets(now_is) -> part, how);
    end if;
  end loop;
  return null;
end
$$;
