/** Every command by name. Loading its code only when it is called keeps `--help` and small commands fast. */
import type { Command } from './command.ts'

export interface CommandEntry {
  summary: string
  load(): Promise<{ command: Command }>
}

export const COMMANDS: Readonly<Record<string, CommandEntry>> = {
  up: {
    summary: 'start everything on this machine and run one demo execution',
    load: () => import('./commands/up.ts'),
  },
  run: {
    summary: 'run a program, show its output, exit with its status',
    load: () => import('./commands/run.ts'),
  },
  test: {
    summary: 'run the tests of a project folder in a sandbox',
    load: () => import('./commands/test.ts'),
  },
  enqueue: { summary: 'enqueue a program and return at once', load: () => import('./commands/enqueue.ts') },
  status: {
    summary: 'show the state and result of an execution',
    load: () => import('./commands/status.ts'),
  },
  why: {
    summary: 'explain why an execution waits, was refused, or ended as it did',
    load: () => import('./commands/why.ts'),
  },
  rerun: {
    summary: 'run an ended execution again, with edits, and compare the results',
    load: () => import('./commands/rerun.ts'),
  },
  compare: {
    summary: 'compare the results of two executions',
    load: () => import('./commands/compare.ts'),
  },
  logs: {
    summary: "show an execution's output, live with --follow",
    load: () => import('./commands/logs.ts'),
  },
  cancel: { summary: 'cancel an execution', load: () => import('./commands/cancel.ts') },
  caps: { summary: "show or change a tenant's caps", load: () => import('./commands/caps.ts') },
  usage: { summary: 'show what a tenant used and what it cost', load: () => import('./commands/usage.ts') },
  queue: {
    summary: 'show what waits and runs, and which tenant gets how much and is next',
    load: () => import('./commands/queue.ts'),
  },
  stats: {
    summary: 'show how many attempts ended each minute, and how long they waited and ran',
    load: () => import('./commands/stats.ts'),
  },
  audit: { summary: 'list audit rows', load: () => import('./commands/audit.ts') },
  routines: {
    summary: 'create, list, run and change routines: programs with a schedule',
    load: () => import('./commands/routines.ts'),
  },
  sessions: {
    summary: 'list and end sessions, and read and write their files',
    load: () => import('./commands/sessions.ts'),
  },
  workspace: {
    summary: 'copy a folder into a workspace of a tenant, and back',
    load: () => import('./commands/workspace.ts'),
  },
  tenant: { summary: 'create, list and change tenants', load: () => import('./commands/tenant.ts') },
  admin: {
    summary: 'make and revoke admin keys, and list who changed what in the fleet',
    load: () => import('./commands/admin.ts'),
  },
  provision: {
    summary: 'create and remove what a vendor’s backend needs',
    load: () => import('./commands/provision.ts'),
  },
  dashboard: {
    summary: 'print a link that signs a browser in to the dashboard',
    load: () => import('./commands/dashboard.ts'),
  },
  doctor: {
    summary: 'show which backends work on this machine, and why others do not',
    load: () => import('./commands/doctor.ts'),
  },
  completion: {
    summary: 'print the completion script of a shell',
    load: () => import('./commands/completion.ts'),
  },
  setup: {
    summary: 'prepare a database for a deployment: schema, demo tenant, admin key',
    load: () => import('./commands/setup.ts'),
  },
  upgrade: {
    summary: 'check what an upgrade of a fleet still needs, and what runs where',
    load: () => import('./commands/upgrade.ts'),
  },
  double: {
    summary: 'emulate a cloud service on this machine',
    load: () => import('./commands/double.ts'),
  },
  mcp: {
    summary: 'serve the tools to an MCP client over stdin and stdout',
    load: () => import('./commands/mcp.ts'),
  },
  dispatcher: {
    summary: 'serve Managed Agents environments in the foreground',
    load: () => import('./commands/dispatcher.ts'),
  },
  worker: { summary: 'run a worker in the foreground', load: () => import('./commands/worker.ts') },
  api: { summary: 'run the API in the foreground', load: () => import('./commands/api.ts') },
}
