-- Replaces: 9e6fd5d8edcc5487042c927dac872aaf20e0c8a061c3d06bb8ea1778f55f9f1b
-- The former content made the same, with checks and an index that read every row under a lock.
-- Keys that only read, and events of what has no row to change: cancels, ends of sessions, runs by hand.
alter table api_keys add column read_only boolean not null default false;

-- `ui` when a person did it on the dashboard, whose requests come with a cookie instead of a key. By default the setting that
-- the store makes for its transaction, so that the functions that write events need not name the column.
alter table tenant_policy_events
  add column via text,
  add constraint tenant_policy_events_via_check check (via in ('ui')) not valid;
alter table tenant_policy_events alter column via set default nullif(current_setting('app.via', true), '');
alter table routine_events
  add column via text,
  add constraint routine_events_via_check check (via in ('ui')) not valid;
alter table routine_events alter column via set default nullif(current_setting('app.via', true), '');

-- Only functions of the owner write events, so a list of their kinds would be a second copy of what those functions say.
alter table tenant_policy_events drop constraint tenant_policy_events_event_type_check;
alter table tenant_policy_events add constraint tenant_policy_events_event_type_check check (
  event_type ~ '^[a-z][a-z_]{0,39}$'
) not valid;

-- Who last changed a cap is looked up for every refused execution, however many cancels came after it.
-- The index tenant_policy_events_caps is for that. The migrating process builds it while others write
-- (src/late-indexes.ts).

-- Keys of tenants: made, revoked. An admin key belongs to no tenant, so it has no events. The label may name people, not secrets.
create function record_key_change() returns trigger
  language plpgsql
  security definer
  set search_path = public, pg_temp
as $$
declare
  who text := coalesce(nullif(current_setting('app.actor', true), ''), session_user);
  how text := coalesce(nullif(current_setting('app.source', true), ''), 'sql');
  facts jsonb := jsonb_build_object(
    'key_id', new.id, 'label', new.label, 'template_id', new.template_id, 'read_only', new.read_only
  );
begin
  if new.tenant_id is null then
    return null;
  elsif tg_op = 'INSERT' then
    insert into tenant_policy_events (tenant_id, actor, event_type, after, source)
    values (new.tenant_id, who, 'key_created', facts, how);
  elsif old.revoked_at is null and new.revoked_at is not null then
    insert into tenant_policy_events (tenant_id, actor, event_type, before, source)
    values (new.tenant_id, who, 'key_revoked', facts, how);
  elsif old.revoked_at is not null and new.revoked_at is null then
    insert into tenant_policy_events (tenant_id, actor, event_type, after, source)
    values (new.tenant_id, who, 'key_restored', facts, how);
  end if;
  return null;
end
$$;
-- Not for last_used_at, which changes every minute.
create trigger record_key_change after insert or update of revoked_at on api_keys
  for each row execute function record_key_change();
alter table api_keys enable always trigger record_key_change;

-- The secret itself is never in an event.
create function record_callback_secret_change() returns trigger
  language plpgsql
  security definer
  set search_path = public, pg_temp
as $$
declare
  who text := coalesce(nullif(current_setting('app.actor', true), ''), session_user);
  how text := coalesce(nullif(current_setting('app.source', true), ''), 'sql');
begin
  insert into tenant_policy_events (tenant_id, actor, event_type, before, after, source)
  values (
    coalesce(new.tenant_id, old.tenant_id), who,
    case tg_op when 'DELETE' then 'callback_secret_deleted' else 'callback_secret_rotated' end,
    case tg_op when 'INSERT' then null else jsonb_build_object('rotated_at', old.rotated_at) end,
    case tg_op when 'DELETE' then null else jsonb_build_object('rotated_at', new.rotated_at) end, how
  );
  return null;
end
$$;
create trigger record_callback_secret_change after insert or update or delete on callback_secrets
  for each row execute function record_callback_secret_change();
alter table callback_secrets enable always trigger record_callback_secret_change;

-- What a caller did that changes no row here. With the owner's rights, so that the app can add these kinds of events only.
create function record_tenant_action(tenant text, action text, details jsonb) returns void
  language plpgsql
  security definer
  set search_path = public, pg_temp
as $$
begin
  if action not in (
    'execution_cancelled', 'tenant_cancelled', 'session_ended', 'session_file_written', 'session_file_removed',
    'routine_run', 'workspace_replaced', 'workspace_deleted'
  ) then
    raise exception 'no such action: %', action using errcode = 'invalid_parameter_value';
  end if;
  insert into tenant_policy_events (tenant_id, actor, event_type, after, source)
  values (
    tenant, coalesce(nullif(current_setting('app.actor', true), ''), session_user), action, details,
    coalesce(nullif(current_setting('app.source', true), ''), 'sql')
  );
end
$$;
revoke execute on function record_tenant_action(text, text, jsonb) from public;
grant execute on function record_tenant_action(text, text, jsonb) to cofferdam_app;
