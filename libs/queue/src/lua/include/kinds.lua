-- Kinds of workers, and which of them can serve an execution. Workers that offer the same are of one kind.
--   offers  what the workers of a kind have: one line for each backend, with a word for each capability
--           (`backend=docker,isolation=jail,…`). `*` stands for everything.
--   need    the words that an execution needs of one backend, joined by commas. '' needs nothing.
--   class   executions of a lane that the same kinds can serve: `<lane>/<need>` while some known kinds have
--           the need and others do not, otherwise `<lane>`. A need that no known kind has is also in
--           `<lane>`, so that any worker takes it and refuses it.
-- A kind is known while one of its workers sends heartbeats, and for C.kind_patience after the last one left
-- or fell silent. So a short restart of the only worker that can serve an execution does not end it. Time in
-- which no worker of any kind sends heartbeats does not count. A fleet without workers has the one kind ''.
local kinds_read
local function known_kinds()
  if not kinds_read then
    kinds_read = redis.call('ZRANGE', K.kinds, 0, -1)
    if #kinds_read == 0 then kinds_read = { '' } end
    -- Names begin with the isolation, so work for any kind goes to the strongest one with a free slot.
    if #kinds_read > 1 then table.sort(kinds_read, function(a, b) return a > b end) end
  end
  return kinds_read
end

local function are_kinds_alike() return #known_kinds() == 1 end

local function is_known(kind)
  for _, known in ipairs(known_kinds()) do
    if known == kind then return true end
  end
  return false
end

-- True when one line of `offers` has every word of the need. With `every`, all lines must have them.
local function has(offers, need, every)
  if offers == '*' then return true end
  for line in string.gmatch(offers, '[^\n]+') do
    local missing = false
    for word in string.gmatch(need, '[^,]+') do
      if not string.find(',' .. line .. ',', ',' .. word .. ',', 1, true) then
        missing = true
        break
      end
    end
    if every and missing then return false end
    if not every and not missing then return true end
  end
  return every or false
end

-- The kinds that can serve a need, as a set (false when all known kinds can or none can), and the words of
-- the need that distinguish kinds. O(kinds * length of offers) for a need that is new since the fleet
-- changed, otherwise O(1).
local servers_read = {}
local function servers_of(need)
  local known = servers_read[need]
  if not known then
    local stored = redis.call('HGET', K.servers, need)
    if not stored then
      local offers, can, words = {}, {}, {}
      for i, kind in ipairs(known_kinds()) do offers[i] = redis.call('HGET', K.offers, kind) or '*' end
      for i, kind in ipairs(known_kinds()) do
        if has(offers[i], need) then can[#can + 1] = kind end
      end
      for word in string.gmatch(need, '[^,]+') do
        local is_common = true
        for _, offer in ipairs(offers) do is_common = is_common and has(offer, word, true) end
        if not is_common then words[#words + 1] = word end
      end
      if #can == #offers then can = {} end
      stored = table.concat(can, ' ') .. '|' .. table.concat(words, ',')
      if redis.call('HLEN', K.servers) >= C.needs_max then redis.call('DEL', K.servers) end
      redis.call('HSET', K.servers, need, stored)
    end
    local names, words = string.match(stored, '^([^|]*)|(.*)$')
    known = { words = words, kinds = names ~= '' and {} }
    for kind in string.gmatch(names, '%S+') do known.kinds[kind] = true end
    servers_read[need] = known
  end
  return known
end

-- A worker of no known kind (heartbeats stopped or lost) serves nothing until its next heartbeat.
local function serves(kind, need)
  if not is_known(kind) then return false end
  if not need or need == '' or are_kinds_alike() then return true end
  local kinds = servers_of(need).kinds
  return not kinds or kinds[kind] or false
end

local function class_of(lane, need)
  if not need or need == '' or are_kinds_alike() then return lane end
  local servers = servers_of(need)
  return servers.kinds and lane .. '/' .. servers.words or lane
end

local function need_of_class(class) return string.match(class, '/(.*)$') or '' end

-- How many executions may be outstanding at a kind: in this lane, and in all lanes.
local function window_of(kind, lane)
  local prefix = are_kinds_alike() and '' or kind .. ':'
  local w = redis.call('HMGET', K.window, prefix .. lane, prefix .. 'total')
  return tonumber(w[1]) or 0, tonumber(w[2]) or 0
end

-- Adds `by` to the count of outstanding executions at a kind.
local function count_out(lane, kind, by)
  local field = lane .. ':' .. kind
  if redis.call('HINCRBY', K.outs, field, by) <= 0 then redis.call('HDEL', K.outs, field) end
end

local function out_at(kind)
  local n = redis.call('HMGET', K.outs, 'interactive:' .. kind, 'routine:' .. kind)
  return { interactive = tonumber(n[1]) or 0, routine = tonumber(n[2]) or 0 }
end
