import type { Operations, QueueTenants } from '@cofferdam/client'

/** What waits and runs, and the workers. */
export type Queue = Operations['getQueue']['result']

/** One tenant that has executions waiting or running. */
export type QueueTenant = QueueTenants['tenants'][number]
