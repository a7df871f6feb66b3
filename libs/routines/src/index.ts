/** Executions that run by a schedule, and the calls that tell how executions ended. */
export { fireRoutine, tickOf, type FireDeps, type Trigger } from './fire.ts'
export { checkSchedule, nextRunMs } from './schedule.ts'
export { createSchedules, serveTicks, type Schedules, type TickDeps } from './ticks.ts'
