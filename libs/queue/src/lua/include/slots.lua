--- @include backlog
-- Slots: a tenant holds one from release to ending. Its virtual time is charged with an estimate at release and
-- corrected to what was used at the end, so long runs cost more than short ones.

-- Gives back the slot of `id`. `used` in seconds; nil when it did not run (the charge is returned in full).
local function slot_free(lane, tenant, id, estimate, used)
  if redis.call('ZREM', K.out .. lane, id) == 0 then return false end
  local key = K.tenant .. tenant
  if redis.call('HINCRBY', key, 'n', -1) < 0 then redis.call('HSET', key, 'n', 0) end
  local weight = limits_of(tenant)
  local correction = ((used or 0) - estimate) / weight
  if redis.call('ZSCORE', K.ring .. lane, tenant) then
    redis.call('ZINCRBY', K.ring .. lane, correction, tenant)
  else
    redis.call('HINCRBYFLOAT', key, 'vt:' .. lane, correction)
  end
  if used then
    -- Moving averages over about five executions: of the tenant for its next estimate, of the lane for ETAs.
    local mean = tonumber(redis.call('HGET', key, 'mean'))
    redis.call('HSET', key, 'mean', mean and mean + (used - mean) * 0.2 or used)
    local lanes = tonumber(redis.call('HGET', K.clock, 'mean:' .. lane))
    redis.call('HSET', K.clock, 'mean:' .. lane, lanes and lanes + (used - lanes) * 0.2 or used)
  end
  ring_enter_lanes(tenant)
  forget_if_idle(tenant)
  return true
end
