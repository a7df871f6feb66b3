/** The operations of the service's control plane that provisioning needs. Loads the SDK on first use. */
import { credentialsFrom } from '../credentials.ts'
import { ATTEMPTS } from '../retry-calls.ts'
import { calling, isAwsFailure } from './aws-failure.ts'
import type { AgentcoreProvisionConfig } from './config.ts'

type Connection = Pick<AgentcoreProvisionConfig, 'region' | 'credentials_file' | 'profile'>

/** Every call answers within a second, so one without an answer after this time never will. */
const SILENT_MS = 30_000
const CONNECT_MS = 5_000

/**
 * Options of both clients. The SDK makes five attempts with pauses of up to 8 s in total, because the quota
 * is 5 creations per second.
 */
export function clientOptions(
  { region, credentials_file: file, profile }: Connection,
  endpoint: string | undefined,
) {
  return {
    region,
    maxAttempts: ATTEMPTS.controlPlane,
    requestHandler: {
      connectionTimeout: CONNECT_MS,
      requestTimeout: SILENT_MS,
      throwOnRequestTimeout: true,
    },
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(file === undefined ? {} : { credentials: credentialsFrom(file, profile) }),
  }
}

export interface InterpreterWish {
  name: string
  network: { mode: 'PUBLIC' | 'SANDBOX' } | { mode: 'VPC'; subnets: string[]; securityGroups: string[] }
  executionRoleArn: string | null
  clientToken: string
}

/** An interpreter as returned by `get`. */
export interface InterpreterFacts {
  id: string
  name: string
  status: string
  networkMode: string
  executionRoleArn: string | null
  failureReason: string | null
}

/** An interpreter as returned by `list`, without settings and tags. */
export interface ListedInterpreter {
  id: string
  name: string
  status: string
  createdAtMs: number
}

/** Every method throws `AwsFailure`; `list` also a plain Error if the list is broken or does not end. */
export interface ControlPlane extends Disposable {
  /** For a known token, returns what the first call with it created. */
  create(wish: InterpreterWish): Promise<{ id: string; createdAtMs: number }>
  /** Null if the service does not know the ID yet, or no longer. */
  get(id: string): Promise<InterpreterFacts | null>
  /** All interpreters that the account created in the region. */
  list(): AsyncGenerator<ListedInterpreter>
  /** Returns false if there was none. */
  delete(id: string): Promise<boolean>
}

const PAGE = 100
/** Ten times the account's quota of 1,000 interpreters. We take a longer list for one that does not end. */
const PAGES_MAX = 100

/** Makes no request. */
export async function openControlPlane(
  config: Connection & Pick<AgentcoreProvisionConfig, 'control_url'>,
): Promise<ControlPlane> {
  const sdk = await import('@aws-sdk/client-bedrock-agentcore-control')
  const client = new sdk.BedrockAgentCoreControlClient(clientOptions(config, config.control_url))

  return {
    create: ({ name, network, executionRoleArn, clientToken }) =>
      calling(client, 'CreateCodeInterpreter', async () => {
        const made = await client.send(
          new sdk.CreateCodeInterpreterCommand({
            name,
            clientToken,
            description: 'Made by cofferdam provision agentcore.',
            networkConfiguration:
              network.mode === 'VPC'
                ? {
                    networkMode: 'VPC',
                    vpcConfig: { subnets: network.subnets, securityGroups: network.securityGroups },
                  }
                : { networkMode: network.mode },
            ...(executionRoleArn === null ? {} : { executionRoleArn }),
          }),
        )
        return { id: present(made.codeInterpreterId, 'id'), createdAtMs: timeOf(made.createdAt) }
      }),
    get: (id) =>
      goneIsNull(() =>
        calling(client, 'GetCodeInterpreter', async () => {
          const found = await client.send(new sdk.GetCodeInterpreterCommand({ codeInterpreterId: id }))
          return {
            id: present(found.codeInterpreterId, 'id'),
            name: present(found.name, 'name'),
            status: present(found.status, 'status'),
            networkMode: present(found.networkConfiguration?.networkMode, 'network mode'),
            executionRoleArn: found.executionRoleArn ?? null,
            failureReason: found.failureReason ?? null,
          }
        }),
      ),
    async *list() {
      let nextToken: string | undefined
      for (let page = 0; page < PAGES_MAX; page += 1) {
        const token = nextToken
        const answer = await calling(client, 'ListCodeInterpreters', () =>
          client.send(
            new sdk.ListCodeInterpretersCommand({
              maxResults: PAGE,
              type: 'CUSTOM',
              ...(token === undefined ? {} : { nextToken: token }),
            }),
          ),
        )
        for (const found of answer.codeInterpreterSummaries ?? [])
          yield {
            id: present(found.codeInterpreterId, 'id'),
            name: found.name ?? '',
            status: present(found.status, 'status'),
            createdAtMs: timeOf(found.createdAt),
          }
        nextToken = answer.nextToken
        if (nextToken === undefined || nextToken === '') return
      }
      throw new Error(`ListCodeInterpreters: does not end within ${PAGES_MAX} pages`)
    },
    delete: async (id) =>
      (await goneIsNull(() =>
        calling(client, 'DeleteCodeInterpreter', async () => {
          await client.send(new sdk.DeleteCodeInterpreterCommand({ codeInterpreterId: id }))
          return true
        }),
      )) ?? false,
    [Symbol.dispose]() {
      client.destroy()
    },
  }
}

async function goneIsNull<T>(call: () => Promise<T>): Promise<T | null> {
  try {
    return await call()
  } catch (error) {
    if (isAwsFailure(error, 'gone')) return null
    throw error
  }
}

function present<T>(value: T | undefined, what: string): T {
  if (value === undefined) throw new Error(`the answer has no ${what}`)
  return value
}

/** Without a time the interpreter counts as new, so that nothing is done to it. */
const timeOf = (date: Date | undefined): number => date?.getTime() ?? Date.now()
