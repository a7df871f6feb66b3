-- Purpose: the owner puts a taken execution back into its backlog.
-- KEYS[1]  record
-- ARGV     1 id, 2 fence, 3 mode, 4 slot milliseconds (retry), 5 milliseconds until it or its tenant may go on (later, defer),
--          6 JSON of the `notice` event after its at_ms, or '', 7 attempt record JSON for the outbox, or ''
--          retry: this attempt is over; the next number runs later.   defer: did not begin, tenant parked.
--          back:  did not begin, another worker runs it.              later: did not begin, it alone is delayed.
--          route: did not begin, and needs what its owner has not (8: what it needs, include/kinds.lua).
-- Returns  {'ok'} | {'fenced'} | {'began'} (only `retry` may follow `begin`) | {'nobody'} (route: no other
--          kind has what it needs; it is still its owner's)
-- Invariants: what an earlier owner began (`bg`) stays until `retry` or `settle`, so the next owner still sees it.
--          Keeps its place in the order (same score, its agent is next). Only `retry` uses up the attempt and
--          charges the slot; the others return the charge in full. Repeating it answers ok until it is taken again.
--          It stays the front of its session.
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
  local has_other = false
  for kind in pairs(servers_of(ARGV[8]).kinds or {}) do has_other = has_other or kind ~= x[12] end
  if not has_other then return { 'nobody' } end
  redis.call('HSET', KEYS[1], 'nd', ARGV[8])
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
-- An owner that lost this attempt may yet record how it ended: whoever takes it next is told, as this one was.
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
if ARGV[6] ~= '' then append_event(id, string.format('{"type":"notice","at_ms":%.0f,', now) .. ARGV[6], x[11]) end
pick(now)
return { 'ok' }
