-- The two roles that processes take with SET ROLE; the login user of DATABASE_URL only owns the schema.
--   cofferdam_app          reads its tenant (setting app.tenant_id), appends audit rows and results of any tenant
--   cofferdam_all_tenants  the same, and reads every tenant: the worker's writer and admin reads
-- Roles belong to the whole cluster: another database of it may make them at the same moment.
do $$
declare
  wanted text;
  may_set boolean;
begin
  foreach wanted in array array['cofferdam_app', 'cofferdam_all_tenants'] loop
    if not exists (select from pg_roles where rolname = wanted) then
      begin
        execute format('create role %I nologin', wanted);
      exception when duplicate_object or unique_violation then
        null;
      end;
    end if;
  end loop;
  if not pg_has_role('cofferdam_all_tenants', 'cofferdam_app', 'member') then
    grant cofferdam_app to cofferdam_all_tenants;
  end if;
  foreach wanted in array array['cofferdam_app', 'cofferdam_all_tenants'] loop
    -- Since version 16 the creator of a role is a member of it who may not SET it until it grants itself that.
    if current_setting('server_version_num')::int >= 160000 then
      execute format('select pg_has_role(current_user, %L, ''set'')', wanted) into may_set;
    else
      may_set := pg_has_role(current_user, wanted, 'member');
    end if;
    if not may_set then
      execute format('grant %I to %I', wanted, current_user);
    end if;
  end loop;
end
$$;

grant usage on schema public to cofferdam_app;

-- Shared by every append-only table.
create function refuse_change() returns trigger
  language plpgsql
as $$
begin
  raise exception '% is append-only: % is refused', tg_table_name, tg_op using errcode = 'restrict_violation';
end
$$;
