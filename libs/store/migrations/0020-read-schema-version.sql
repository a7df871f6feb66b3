-- A process that logs in without being the owner must be able to see which schema it finds, before it takes work.
grant select on cofferdam_migrations to cofferdam_app;
