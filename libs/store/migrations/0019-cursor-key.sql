-- What the API seals the cursors of its lists with (apps/api/src/cursors.ts). One for the fleet, so that any process reads on where
-- another one left. 244 random bits: of each UUID six are fixed.
create table cursor_key (
  is_only_one boolean primary key default true check (is_only_one),
  key bytea not null check (octet_length(key) = 32)
);
insert into cursor_key (key)
values (decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'));
grant select on cursor_key to cofferdam_app;
