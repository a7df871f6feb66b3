-- Purpose: the attempt ended for good: result visible, slot freed, waiters told, the next one of its session and
--          next executions released.
-- KEYS[1]  record
-- ARGV     1 id, 2 fence, 3 result JSON, 4 JSON of the `ended` event after its at_ms, 5 slot milliseconds,
--          6 attempt record JSON for the outbox, or ''
-- Returns  {'ok'} | {'fenced'}
-- Invariants: the outbox entry and the ending exist together or not at all. Exactly one settle of an execution takes effect; repeating it with the same fence answers ok.
-- Complexity: O(log n + waiters) plus the picks.
--- @include clock
--- @include settling
--- @include ending
local id = ARGV[1]
local x = redis.call('HMGET', KEYS[1], 's', 'f', 't', 'l', 'est', 'sk', 'cb', 'st', 'eq', 'wc', 'k')
if x[2] ~= ARGV[2] then return { 'fenced' } end
if x[1] == 'ended' then return { 'ok' } end
if x[1] ~= 'running' then return { 'fenced' } end
local now = now_ms()
local goes_on = not x[6] and still_calm(now)
local _, has_backlog = slot_free(x[4], x[3], id, x[11], tonumber(x[5]), tonumber(ARGV[5]) / 1000, goes_on)
if ARGV[6] ~= '' then redis.call('XADD', K.outbox, '*', 'r', ARGV[6]) end
finish(id, x[3], ARGV[3], ARGV[4], now, x[7], x[10], not x[8] and x[9])
if not goes_on or has_backlog then
  calm = false
  write_now()
  session_leave(x[6], id)
  pick(now)
end
return { 'ok' }
--- @end
write_now()
