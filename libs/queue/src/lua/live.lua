-- Purpose: list executions that have not ended, of one tenant or of all, newest first.
-- KEYS[1]  any key of the tag (routing)
-- ARGV     1 tenant or '' for all, 2 how many to list, 3 cursor from the page before, or '', 4 how many to
--          look at, 5 filter as JSON (live-filter.ts), or ''
-- Returns  {list of descriptions (include/describe.lua), cursor or '' at the end, how many it looked at}
-- Complexity: O(looked at + listed * log n).
--- @include clock
--- @include describe
local now, found, last, looked = now_ms(), {}, '', 0
local wanted, most = tonumber(ARGV[2]), tonumber(ARGV[4])
local asked = ARGV[5] ~= '' and cjson.decode(ARGV[5])
local key = ARGV[1] == '' and K.all_live or K.live .. ARGV[1]
local below = ARGV[3] == '' and '+inf' or '(' .. ARGV[3]

local function is(wish, fact) return not wish or wish == fact end

-- Whether an execution matches. The second value is true if nothing further down the list can match, because
-- the list goes from the newest to the oldest.
local function matches(id)
  local x = redis.call('HMGET', K.record .. id, 'a', 'eq', 'pk', 'tp', 'fa', 'bg')
  local at, kind = tonumber(x[2]), x[3] or ''
  if not at then return false end
  if asked.from and at < asked.from then return false, true end
  if asked.to and at >= asked.to then return false end
  if not is(asked.agent, x[1]) then return false end
  if not is(asked.kind, kind) and not is(asked.kind, string.match(kind, '^(script)/')) then return false end
  if asked.trace and asked.trace ~= string.sub(x[4] or '', 4, 35) then return false end
  if asked.user or asked.run or asked.template then
    local user, run, template = facts_of(x[5])
    if not (is(asked.user, user) and is(asked.run, run) and is(asked.template, template)) then return false end
  end
  if asked.backend and asked.backend ~= backend_of(x[5], x[6]) then return false end
  return not asked.session or (x[6] ~= false and cjson.decode(x[6]).sessionId == asked.session)
end

local page = redis.call('ZREVRANGEBYSCORE', key, below, '-inf', 'WITHSCORES', 'LIMIT', 0, most)
for i = 1, #page, 2 do
  local is_match, is_last = true, false
  if asked then is_match, is_last = matches(page[i]) end
  if is_last then return { found, '', looked } end
  if is_match then found[#found + 1] = describe(page[i], now) end
  last, looked = page[i + 1], looked + 1
  if #found == wanted then return { found, last, looked } end
end
return { found, looked < most and '' or last, looked }
