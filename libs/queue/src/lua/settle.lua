-- Purpose: end an execution: store its result, free its slot, tell the waiters, release the next executions.
-- KEYS[1]  record
-- ARGV     1 id, 2 fence, 3 result JSON, 4 rest of the `ended` event's JSON after at_ms, 5 slot milliseconds,
--          6 attempt record JSON for the outbox, or ''
-- Returns  {'ok'} | {'fenced'}
-- Invariants: the ending and the outbox entry are written together or not at all. Exactly one settle of an
--          execution takes effect. Repeating it with the same fence answers ok.
-- Complexity: O(log n + waiters) plus the picks.
--- @include clock
--- @include pick
--- @include ending

-- If no execution waits, an ending needs no pick. The check is made once for all endings of this call. After
-- the first ending that may make an execution ready, every ending picks.
local is_idle
local function still_idle(now)
  if is_idle == nil then is_idle = nobody_waits(now) end
  return is_idle
end
--- @each
local id = ARGV[1]
local x = redis.call('HMGET', KEYS[1], 's', 'f', 't', 'l', 'est', 'sk', 'cb', 'st', 'eq', 'wc', 'k')
if x[2] ~= ARGV[2] then return { 'fenced' } end
if x[1] == 'ended' then return { 'ok' } end
if x[1] ~= 'running' then return { 'fenced' } end
local now = now_ms()
local defers = not x[6] and still_idle(now)
local _, has_backlog = slot_free(x[4], x[3], id, x[11], tonumber(x[5]), tonumber(ARGV[5]) / 1000, defers)
if ARGV[6] ~= '' then redis.call('XADD', K.outbox, '*', 'r', ARGV[6]) end
finish(id, x[3], ARGV[3], ARGV[4], now, x[7], x[10], not x[8] and x[9])
if not defers or has_backlog then
  is_idle = false
  write_now()
  session_leave(x[6], id)
  pick(now)
end
return { 'ok' }
--- @end
write_now()
