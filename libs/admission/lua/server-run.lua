-- Stands in front of the scripts that are told which run of the server their caller knows, and whose counters were made good under
-- one: a broken connection sends again what was not answered, with the run before in it. The server knows its own (INFO, 4 us);
-- where it hides that (server-run.ts) it is believed. A cluster's run is those of all its masters: this one's is among them.
local own_run
local function is_this_run(told)
  if not own_run then
    local info = redis.pcall('INFO', 'server')
    own_run = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
  end
  return own_run == '' or told == 'hidden' or string.find(told, own_run, 1, true) ~= nil
end
