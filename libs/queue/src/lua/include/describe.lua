--- @include forecast
-- User, run, template and requested backend out of field `fa` (live-filter.ts). Nil where there is none.
local function facts_of(facts)
  local user, run, template, backend = string.match(facts or '', '^(.-)\n(.-)\n(.-)\n(.*)$')
  local function known(fact) return fact ~= '' and fact or nil end
  return known(user), known(run), known(template), known(backend)
end

-- The backend that runs it (field `bg`). Before that, the one that its request names, or nil.
local function backend_of(facts, began)
  if began then return cjson.decode(began).backend end
  return (select(4, facts_of(facts)))
end

-- Describes one execution: {id, tenant, agent, status, attempt, enqueued ms, started ms or '', position or
-- -1, eta ms or -1, last progress event or '', the execution that it runs again or '', kind of program or '',
-- key of its session or '', backend or ''}. Nil when it has no record.
local function describe(id, now)
  local x = redis.call('HMGET', K.record .. id, 't', 'a', 's', 'at', 'eq', 'st', 'l', 'sk', 'hd', 'rel', 'pg',
    'ro', 'pk', 'fa', 'bg')
  if not x[1] then return nil end
  local status, position, eta = status_of(x[3], x[6]), -1, -1
  if x[3] == 'released' then
    position, eta = forecast_released(x[7], id, x[10])
  elseif status == 'queued' then
    position, eta = forecast(x[7], x[1], x[2], id, now, x[8], x[9])
  elseif status == 'delayed' then
    eta = math.max(0, (tonumber(redis.call('ZSCORE', K.delayed .. x[7], id)) or now) - now)
  end
  local session = x[8] and string.sub(x[8], #x[1] + 2) or ''
  return { id, x[1], x[2], status, x[4], x[5], status ~= 'queued' and x[6] or '', position, eta, x[11] or '',
    x[12] or '', x[13] or '', session, backend_of(x[14], x[15]) or '' }
end
