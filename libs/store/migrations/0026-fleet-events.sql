-- Replaces: 3bb3147d8e7207c8a5c2e5f57af75de29db8eaa5d953de3127858e575a2b861d
-- The former content made the same, with a check and an index that read every row under a lock.
-- Events of what belongs to no tenant: admin keys. They stand among those of the tenants, so that one list has every change.
alter table tenant_policy_events alter column tenant_id drop not null;
alter table tenant_policy_events add constraint tenant_policy_events_of_fleet check (
  tenant_id is not null or event_type ~ '^admin_'
) not valid;
-- Events of one kind, of all tenants, have the index tenant_policy_events_type. The migrating process builds it while
-- others write (src/late-indexes.ts).

-- Keys: made, revoked. The label may name people, not secrets. An admin key has no tenant and no template.
create or replace function record_key_change() returns trigger
  language plpgsql
  security definer
  set search_path = public, pg_temp
as $$
declare
  who text := coalesce(nullif(current_setting('app.actor', true), ''), session_user);
  how text := coalesce(nullif(current_setting('app.source', true), ''), 'sql');
  kind text := case when new.tenant_id is null then 'admin_key' else 'key' end;
  facts jsonb := jsonb_build_object('key_id', new.id, 'label', new.label, 'read_only', new.read_only);
begin
  if new.tenant_id is not null then
    facts := facts || jsonb_build_object('template_id', new.template_id);
  end if;
  if tg_op = 'INSERT' then
    insert into tenant_policy_events (tenant_id, actor, event_type, after, source)
    values (new.tenant_id, who, kind || '_created', facts, how);
  elsif old.revoked_at is null and new.revoked_at is not null then
    insert into tenant_policy_events (tenant_id, actor, event_type, before, source)
    values (new.tenant_id, who, kind || '_revoked', facts, how);
  elsif old.revoked_at is not null and new.revoked_at is null then
    insert into tenant_policy_events (tenant_id, actor, event_type, after, source)
    values (new.tenant_id, who, kind || '_restored', facts, how);
  end if;
  return null;
end
$$;
