import { openApi } from '../api-connection.ts'
import { API_FLAGS, type Command } from '../command.ts'
import { makeDashboardLink } from '../dashboard-link.ts'
import { EXIT } from '../exit-status.ts'

export const command: Command = {
  usage: '',
  details:
    'Prints a link that signs one browser in to the dashboard as the key of this command, once and within ' +
    'ten minutes.\n' +
    'Whoever has the link first is signed in, so send it to nobody. The sign-in ends with its key, after 12 ' +
    'hours without\n' +
    'use, and after 7 days.',
  flags: { ...API_FLAGS },
  words: { min: 0, max: 0 },
  examples: [
    'cofferdam dashboard',
    'COFFERDAM_API_KEY=cfd_… cofferdam dashboard --url https://cofferdam.example.com',
  ],
  async run(context, line) {
    const { terminal } = context
    const { link, expiresAt } = await makeDashboardLink(openApi(context, line))
    terminal.value({ link, expires_at: expiresAt })
    // Alone on stdout, so that `xdg-open "$(cofferdam dashboard)"` works.
    terminal.line(link)
    terminal.note(`It signs in once, until ${expiresAt}.`)
    return EXIT.ok
  },
}
