-- Replaces: d1b2741ce1a00400564f1dec3db4757557e92ef0a52e92347d13abb0b770747e
-- The former content made the same, with checks that read every row under a lock.
-- (A CHECK that comes out null passes: hence the coalesce around what may be missing.)
-- What programs may reach, fetch and name, and whether what they leave is stored encrypted: of tenants, and stricter of
-- templates. Defaults equal contract, DEFAULT_TENANT_RULES.
alter table tenants
  add column network jsonb not null default '"public"' check (
    network in ('"none"', '"public"')
    or coalesce(jsonb_typeof(network -> 'allow'), 'missing') = 'array'
  ),
  add column packages jsonb not null default '{"pypi": [], "npm": []}' check (
    coalesce(jsonb_typeof(packages -> 'pypi'), 'missing') = 'array'
    and coalesce(jsonb_typeof(packages -> 'npm'), 'missing') = 'array'
  ),
  add column commands jsonb not null default '{"allow": null, "block": []}' check (
    coalesce(jsonb_typeof(commands -> 'allow'), 'missing') in ('array', 'null')
    and coalesce(jsonb_typeof(commands -> 'block'), 'missing') = 'array'
  ),
  add column encrypt_outputs boolean not null default false;

-- Null: the template says nothing, and the tenant's holds.
alter table templates
  add column network jsonb check (
    network in ('"none"', '"public"')
    or network is null
    or coalesce(jsonb_typeof(network -> 'allow'), 'missing') = 'array'
  ),
  add column min_isolation text check (
    min_isolation in ('none', 'process', 'jail', 'container', 'gvisor', 'microvm-emulated', 'microvm')
  ),
  add column retention_days smallint check (retention_days between 1 and 180),
  add column encrypt_outputs boolean,
  add constraint settings_need_an_environment check (
    sandbox_environment is not null
    or num_nonnulls(network, min_isolation, retention_days, encrypt_outputs) = 0
  );

-- A regulated tenant may be switched on: what its code needs is asked of the template at every execution
-- (libs/admission/src/regulated-tier.ts). Leaving the standard tier still switches it off (0002).
alter table tenants drop constraint enabled_on_standard_tier_only;

alter table tenant_policy_events drop constraint tenant_policy_events_event_type_check;
alter table tenant_policy_events add constraint tenant_policy_events_event_type_check check (
  event_type in (
    'created', 'deleted', 'compliance_tier', 'sandbox_enabled', 'min_isolation', 'environments', 'retention_days',
    'redact', 'caps', 'network', 'packages', 'commands', 'encrypt_outputs'
  )
) not valid;

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
    'burst', t.burst
  )
);

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
    'compliance_tier', 'sandbox_enabled', 'min_isolation', 'environments', 'retention_days', 'redact', 'network',
    'packages', 'commands', 'encrypt_outputs', 'caps'
  ] loop
    if was -> part is distinct from now_is -> part then
      insert into tenant_policy_events (tenant_id, actor, event_type, before, after, source)
      values (new.tenant_id, who, part, without_secrets(was) -> part, without_secrets(now_is) -> part, how);
    end if;
  end loop;
  return null;
end
$$;

-- What the caller sees of a program's output, encrypted, as base64 (libs/store/src/sealed-result.ts); `result` then has none.
alter table results add column sealed text;
