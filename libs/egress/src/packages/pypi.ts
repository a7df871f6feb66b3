/** `/pypi/…`: the simple API (PEP 503, 658, 691) over the one configured mirror. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { MirrorFailure } from './mirror.ts'
import { PackageRefused, sendDocument, sendFile } from './package-answer.ts'
import { pypiName } from './package-rules.ts'
import type { RegistryDeps, ServeRegistry } from './registry-deps.ts'
import { keepRecent } from './recent.ts'
import {
  readSimplePage,
  SIMPLE_HTML,
  SIMPLE_JSON,
  simpleHtml,
  simpleJson,
  versionOf,
  type SimpleFile,
} from './simple-index.ts'

/** Prefers JSON: it has more fields, and a schema can check it. Some mirrors have only HTML. */
const ACCEPT = `${SIMPLE_JSON}, ${SIMPLE_HTML};q=0.2, text/html;q=0.1`

export function createPypi({ mirror, rules, ledger, base, signal: execution }: RegistryDeps): ServeRegistry {
  const allFiles = keepRecent<readonly SimpleFile[]>(async (project) => {
    const { text, type, url } = await mirror.document(mirror.at(`${project}/`), ACCEPT, execution)
    const files = readSimplePage(project, text, type, url)
    const served = files.filter((file) => mirror.serves(file.url))
    if (files.length > 0 && served.length === 0)
      throw new MirrorFailure(
        502,
        `the files of ${project} lie on another host than the package mirror, and it is not in ` +
          'package_file_hosts',
      )
    return { value: served, bytes: text.length }
  })

  const link =
    (project: string) =>
    (file: SimpleFile): string =>
      `${base}/files/${project}/${encodeURIComponent(file.filename)}`

  const sendPage = async (
    request: IncomingMessage,
    response: ServerResponse,
    project: string,
  ): Promise<void> => {
    const files = await allFiles(project)
    const allowed = files.filter((file) => rules.allowsVersion(project, file.version))
    if (files.length > 0 && allowed.length === 0)
      throw new PackageRefused(
        project,
        `no version of ${project} on the mirror is within the tenant's rule ${rules.describe(project)}`,
      )
    if (allowed.length < files.length) ledger.narrowedPackage(project, rules.describe(project))
    const wantsJson = (request.headers.accept ?? '').includes(SIMPLE_JSON)
    if (wantsJson) sendDocument(response, SIMPLE_JSON, simpleJson(project, allowed, link(project)))
    else sendDocument(response, 'text/html; charset=utf-8', simpleHtml(project, allowed, link(project)))
  }

  const sendOne = async (
    request: IncomingMessage,
    response: ServerResponse,
    project: string,
    asked: string,
    signal: AbortSignal,
  ): Promise<void> => {
    const isMetadata = asked.endsWith('.metadata')
    const filename = isMetadata ? asked.slice(0, -'.metadata'.length) : asked
    const version = versionOf(project, filename)
    if (version === null) throw new MirrorFailure(404, `${project} has no such file`)
    if (!rules.allowsVersion(project, version))
      throw new PackageRefused(
        project,
        `version ${version} of ${project} is outside of the tenant's rule ${rules.describe(project)}`,
      )
    const file = (await allFiles(project)).find((candidate) => candidate.filename === filename)
    if (file === undefined || (isMetadata && file.metadata === false))
      throw new MirrorFailure(404, `${project} has no such file`)
    const url = new URL(file.url)
    if (isMetadata) url.pathname += '.metadata'
    await sendFile(request, response, await mirror.file(url, signal), ledger)
    if (!isMetadata && request.method === 'GET') ledger.installedPackage(project, version)
  }

  return async (request, response, [kind, written = '', filename], signal) => {
    const project = pypiName(written)
    if (project === null || (kind !== 'simple' && kind !== 'files'))
      throw new MirrorFailure(
        404,
        'the package proxy serves /pypi/simple/<project>/ and the files named there',
      )
    if (!rules.allowsName(project))
      throw new PackageRefused(project, `package ${project} is not on the tenant's allow-list`)
    if (kind === 'simple') await sendPage(request, response, project)
    else await sendOne(request, response, project, filename ?? '', signal)
  }
}
