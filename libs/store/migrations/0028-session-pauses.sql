-- What callers do with whole sessions, beside ending them: pause, resume, fork.
create or replace function record_tenant_action(tenant text, action text, details jsonb) returns void
  language plpgsql
  security definer
  set search_path = public, pg_temp
as $$
begin
  if action not in (
    'execution_cancelled', 'tenant_cancelled', 'session_ended', 'session_paused', 'session_resumed', 'session_forked',
    'session_file_written', 'session_file_removed', 'routine_run', 'workspace_replaced', 'workspace_deleted'
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
