-- Purpose: the owner puts a taken execution back into its backlog.
-- KEYS[1]  record
-- ARGV     1 id, 2 fence, 3 mode, 4 slot milliseconds (retry), 5 milliseconds to wait (later, defer),
--          6 rest of the `notice` event's JSON after at_ms, or '',
--          7 attempt record JSON for the outbox, or '',
--          8 what it needs of a worker (route; include/kinds.lua)
-- Modes    retry  this attempt is over; the next attempt runs later
--          defer  not begun; its tenant is parked for a time
--          back   not begun; another worker runs it
--          later  not begun; only this execution is delayed
--          route  not begun; needs something that its owner does not have
-- Returns  {'ok'} | {'fenced'} | {'began'} (only `retry` may follow `begin`) | {'nobody'} (route: no
--          other kind has what it needs, and its owner keeps it)
-- Invariants: the mark of an earlier `begin` (`bg`) stays until `retry` or `settle`, so the next owner sees
--          it. The execution keeps its position (same score, so it is the next one of its agent) and stays
--          the front of its session. Only `retry` uses up the attempt and charges the slot. The other modes
--          refund the whole charge. Repeating the call answers ok until the execution is taken again.
-- Complexity: O(log n) plus the picks.
--- @include clock
--- @include pick
--- @include ending
local id, mode = ARGV[1], ARGV[3]
local x = redis.call('HMGET', KEYS[1], 's', 'f', 't', 'a', 'l', 'sc', 'est', 'at', 'bg', 'd', 'eq', 'k')
if x[2] ~= ARGV[2] then return { 'fenced' } end
if x[1] == 'queued' or x[1] == 'released' or x[1] == 'delayed' then return { 'ok' } end
if x[1] ~= 'running' then return { 'fenced' } end
if mode ~= 'retry' and x[9] and tostring(cjson.decode(x[9]).fence) == ARGV[2] then return { 'began' } end
if mode == 'route' then
  -- The owner computed ARGV[8] from the request alone. Keep the version word of the stored need, so that only
  -- a worker that reads this version gets the record.
  local version = string.match(redis.call('HGET', KEYS[1], 'nd') or '', 'records=%d+')
  local need = version and ARGV[8] .. ',' .. version or ARGV[8]
  local has_other = false
  for kind in pairs(servers_of(need).kinds or {}) do has_other = has_other or kind ~= x[12] end
  if not has_other then return { 'nobody' } end
  redis.call('HSET', KEYS[1], 'nd', need)
end
local now = now_ms()
local tenant, lane = x[3], x[5]
local used
if mode == 'retry' then
  used = tonumber(ARGV[4]) / 1000
  redis.call('HSET', KEYS[1], 'at', tonumber(x[8]) + 1)
  redis.call('HDEL', KEYS[1], 'bg', 'st')
end
redis.call('HDEL', KEYS[1], 'w', 'tk', 'dw')
-- A former owner that lost this attempt may still record its ending. Keep one delivery counted, so that the
-- next owner knows that this attempt may have run.
local lost = mode ~= 'retry' and tonumber(x[10]) > 1 and 1 or 0
redis.call('HSET', KEYS[1], 's', mode == 'later' and 'delayed' or 'queued', 'd', lost)
if mode == 'defer' then
  local due = now + tonumber(ARGV[5])
  redis.call('HSET', K.tenant .. tenant, 'park', due)
  redis.call('ZADD', K.parked, due, tenant)
  redis.call('PUBLISH', K.control, string.format('due %.0f', tonumber(ARGV[5])))
  ring_leave('interactive', tenant)
  ring_leave('routine', tenant)
end
if mode == 'later' then
  redis.call('HSET', KEYS[1], 'po', 1)
  redis.call('ZADD', K.delayed .. lane, now + tonumber(ARGV[5]), id)
  redis.call('HINCRBY', K.tenant .. tenant, 'd', 1)
  redis.call('PERSIST', K.tenant .. tenant)
  redis.call('PUBLISH', K.control, string.format('due %.0f', tonumber(ARGV[5])))
else
  backlog_push(lane, tenant, x[4], id, tonumber(x[6]), now, mode ~= 'retry')
end
slot_free(lane, tenant, id, x[12], tonumber(x[7]), used)
if ARGV[7] ~= '' then redis.call('XADD', K.outbox, '*', 'r', ARGV[7]) end
if ARGV[6] ~= '' then
  append_event(id, string.format('{"type":"notice","at_ms":%.0f,', now) .. ARGV[6], x[11])
end
pick(now)
return { 'ok' }
