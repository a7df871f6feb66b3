/** What the harness runs against: the double by default, or AWS with `--live`. */
import { startAccountDouble, type AccountDouble } from '@cofferdam/backend-agentcore/double'
import { NODE } from '@cofferdam/backend-remote/double'

export interface Credentials {
  accessKeyId: string
  secretAccessKey: string
  sessionToken?: string
}

export interface Target extends AsyncDisposable {
  name: 'double' | 'live'
  region: string
  /** Settings of `backends.agentcore` and `provisioning.agentcore` besides region and credentials. */
  backend: object
  provisioning: object
  credentials: Credentials
  /** Null for AWS, whose state cannot be read. */
  double: AccountDouble | null
}

/** Variables that a run against AWS needs. */
export const LIVE_VARIABLES = ['AWS_REGION', 'AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'] as const

export type LiveEnvironment = Readonly<Record<string, string | undefined>>

/** All names of variables that are not set. */
export function missingVariables(environment: LiveEnvironment): string[] {
  return LIVE_VARIABLES.filter((name) => (environment[name] ?? '') === '')
}

export function liveTarget(environment: LiveEnvironment): Target {
  const of = (name: (typeof LIVE_VARIABLES)[number]): string => environment[name] ?? ''
  const sessionToken = environment['AWS_SESSION_TOKEN']
  return {
    name: 'live',
    region: of('AWS_REGION'),
    backend: {},
    provisioning: {},
    credentials: {
      accessKeyId: of('AWS_ACCESS_KEY_ID'),
      secretAccessKey: of('AWS_SECRET_ACCESS_KEY'),
      ...(sessionToken === undefined ? {} : { sessionToken }),
    },
    double: null,
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
}

export async function doubleTarget(): Promise<Target> {
  const double = await startAccountDouble()
  return {
    name: 'double',
    region: double.region,
    backend: { endpoint: double.origin, node: NODE },
    provisioning: { control_url: double.origin, iam_url: double.origin, poll_ms: 10 },
    credentials: double.secrets,
    double,
    [Symbol.asyncDispose]: () => double[Symbol.asyncDispose](),
  }
}
