-- What a user of Neovim sees, asserted. Started by run.sh inside a headless Neovim that has
-- started up and opened the sample run. One line a check on standard output; the exit code is the
-- number of failures (at most 100).
--
-- Environment: SCENARIO (full, missing, disabled), ENCODING (any, utf-8, utf-16, utf-32), LOGS
-- (folder of the sample logs, a copy that may be written to).

local logs = vim.env.LOGS

-- What of the message is underlined: the exception and what was asked for; not the prefix before
-- it, not the other numbers and the advice behind it.
local MESSAGE = '^torch%.OutOfMemoryError: CUDA out of memory%. Tried to allocate %d%.%d%d GiB$'

local failed = 0

local function check(name, ok, detail)
  if not ok then
    failed = failed + 1
  end
  detail = detail and tostring(detail):gsub('[\r\n]+', ' / '):sub(1, 300) or ''
  io.stdout:write(('%s neovim %s, %s%s\n'):format(
    ok and 'ok  ' or 'FAIL',
    vim.env.ENCODING,
    name,
    (not ok and detail ~= '') and ': ' .. detail or ''
  ))
end

local function finish()
  io.stdout:flush()
  os.exit(math.min(failed, 100))
end

local function wait(milliseconds, condition)
  return vim.wait(milliseconds, condition, 10)
end

local function client_of(buf)
  return vim.lsp.get_clients({ bufnr = buf, name = 'trainwreck' })[1]
end

local function attached(buf)
  return wait(15000, function()
    local client = client_of(buf)
    return client ~= nil and client.initialized
  end)
end

--- Opens a file and waits for the server; the buffer.
local function open(path)
  vim.cmd.edit(vim.fn.fnameescape(path))
  local buf = vim.api.nvim_get_current_buf()
  return buf, attached(buf)
end

local function lines_of(buf)
  return vim.api.nvim_buf_get_lines(buf, 0, -1, false)
end

--- The 1-based number of the first line that contains a text, and the text's byte column.
local function find(buf, needle)
  for number, line in ipairs(lines_of(buf)) do
    local column = line:find(needle, 1, true)
    if column then
      return number, column - 1
    end
  end
  error('the sample has no ' .. needle)
end

--- The text under a diagnostic, as Neovim underlines it.
local function text_of(buf, diagnostic)
  local ok, text = pcall(
    vim.api.nvim_buf_get_text,
    buf,
    diagnostic.lnum,
    diagnostic.col,
    diagnostic.end_lnum,
    diagnostic.end_col,
    {}
  )
  return ok and table.concat(text, '\n') or ('outside of the buffer: ' .. tostring(text))
end

local function errors_of(buf)
  return vim.diagnostic.get(buf, { severity = vim.diagnostic.severity.ERROR })
end

--- Waits until the only error of a buffer stands on a line (1-based); the error or nil.
local function error_at(buf, line)
  local found
  wait(10000, function()
    local errors = errors_of(buf)
    found = #errors == 1 and errors[1].lnum + 1 == line and errors[1] or nil
    return found ~= nil
  end)
  return found
end

local function describe(buf)
  local parts = {}
  for _, diagnostic in ipairs(vim.diagnostic.get(buf)) do
    parts[#parts + 1] = ('line %d severity %d %s [%s]'):format(
      diagnostic.lnum + 1,
      diagnostic.severity,
      diagnostic.code or '',
      text_of(buf, diagnostic)
    )
  end
  return #parts == 0 and 'no diagnostics' or table.concat(parts, '; ')
end

--- Puts the cursor on a text, presses K, and reads the window that opens; '' where none does.
local function hover_at(buf, line, needle)
  local column = lines_of(buf)[line]:find(needle, 1, true)
  if not column then
    return 'no such text: ' .. needle
  end
  vim.api.nvim_win_set_cursor(0, { line, column - 1 })
  vim.lsp.buf.hover({ silent = true })
  -- The same question once more, as a barrier: once it is answered the window opens or does not.
  vim.lsp.buf_request_sync(buf, 'textDocument/hover', function(client)
    return vim.lsp.util.make_position_params(0, client.offset_encoding)
  end, 5000)
  local float
  wait(300, function()
    for _, window in ipairs(vim.api.nvim_list_wins()) do
      if vim.api.nvim_win_get_config(window).relative ~= '' then
        float = window
      end
    end
    return float ~= nil
  end)
  if not float then
    return ''
  end
  local text = table.concat(lines_of(vim.api.nvim_win_get_buf(float)), '\n')
  vim.api.nvim_win_close(float, true)
  return text
end

--- The inlay hints of a line (1-based) that Neovim draws, as text.
local function hints_at(buf, line)
  local texts = {}
  wait(5000, function()
    texts = {}
    for _, item in ipairs(vim.lsp.inlay_hint.get({ bufnr = buf })) do
      local hint = item.inlay_hint
      if hint.position.line + 1 == line then
        if type(hint.label) == 'string' then
          texts[#texts + 1] = hint.label
        else
          for _, part in ipairs(hint.label) do
            texts[#texts + 1] = part.value
          end
        end
      end
    end
    return #texts > 0
  end)
  return table.concat(texts, ' ')
end

--- All symbols of a buffer, flat, as the outline (gO) gets them.
local function symbols_of(buf)
  local answers = vim.lsp.buf_request_sync(buf, 'textDocument/documentSymbol', {
    textDocument = vim.lsp.util.make_text_document_params(buf),
  }, 5000)
  local flat = {}
  local function add(symbols)
    for _, symbol in ipairs(symbols or {}) do
      flat[#flat + 1] = symbol
      add(symbol.children)
    end
  end
  for _, answer in pairs(answers or {}) do
    add(answer.result)
  end
  return flat
end

local function check_sample_run()
  local buf = vim.api.nvim_get_current_buf()
  check('the sample run is a log', vim.bo[buf].filetype == 'log', vim.bo[buf].filetype)
  check('the server attaches', attached(buf))
  local client = client_of(buf)
  if not client then
    finish()
  end
  local wanted = vim.env.ENCODING == 'any' and 'utf-8' or vim.env.ENCODING
  check('positions are counted in ' .. wanted, client.offset_encoding == wanted, client.offset_encoding)
  check(
    'the settings arrive',
    vim.deep_equal(client.config.init_options, {
      maxFindings = 200,
      rules = { disabled = {} },
      inlayHints = { enabled = true },
      gpu = '',
      task = 'all',
      gpus = 0,
      sequenceLength = 0,
    }),
    vim.inspect(client.config.init_options)
  )

  local line = find(buf, 'OutOfMemoryError')
  local oom = error_at(buf, line)
  check('one error, the line that killed the run', oom ~= nil, describe(buf))
  check(
    'the error lies on the message',
    oom and text_of(buf, oom):find(MESSAGE),
    describe(buf)
  )
  check('the error says more than the log', oom and #oom.message > 10, oom and oom.message)
  local timeouts = vim.tbl_filter(function(diagnostic)
    return diagnostic.lnum + 1 > line
  end, vim.diagnostic.get(buf))
  check('what followed is quiet', vim.iter(timeouts):all(function(diagnostic)
    return diagnostic.severity >= vim.diagnostic.severity.INFO
  end), describe(buf))

  local number = hover_at(buf, line, '10.31 GiB')
  check('hover on a number names it', number:find('10.31 GiB', 1, true), number)
  local elsewhere = hover_at(buf, line, 'CUDA out of memory')
  check('hover on the line gives the remedy', elsewhere:find('expandable_segments', 1, true), elsewhere)
  check('the two hovers differ', number ~= elsewhere)
  local silent = hover_at(buf, find(buf, 'Num examples'), 'Num examples')
  check('no hover where there is nothing to say', silent == '', silent)

  local hint = hints_at(buf, line)
  check('the verdict stands at the end of the line', hint:lower():find('fragment'), hint)
  local symbols = symbols_of(buf)
  check('the outline names the line', vim.iter(symbols):any(function(symbol)
    local range = symbol.selectionRange or symbol.location.range
    return range.start.line + 1 == line
  end), #symbols .. ' symbols')
end

--- Text under the diagnostics of lines with wide characters, and behind lone carriage returns.
local function check_ranges()
  local buf = open(logs .. '/encoding.log')
  local line = find(buf, 'Tried to allocate')
  local oom = error_at(buf, line)
  check(
    'range behind é and emoji',
    oom and text_of(buf, oom):find(MESSAGE),
    describe(buf)
  )
  local number = hover_at(buf, line, '612.00 MiB')
  check('hover behind é and emoji', number:find('612.00 MiB', 1, true), number)

  buf = open(logs .. '/bar.log')
  line = find(buf, 'Tried to allocate')
  check('the bar is one line in Neovim', lines_of(buf)[line]:find('\r', 1, true))
  oom = error_at(buf, line)
  check(
    'range behind a progress bar',
    oom and text_of(buf, oom):find(MESSAGE),
    describe(buf)
  )
  number = hover_at(buf, line, '21.40 GiB')
  check('hover behind a progress bar', number:find('21.40 GiB', 1, true), number)
end

local function check_edits()
  local buf = open(logs .. '/encoding.log')
  local line = find(buf, 'Tried to allocate')
  vim.api.nvim_buf_set_lines(buf, 0, 0, false, { 'première ligne 🚂', 'second', 'third' })
  check('lines added above: the error moves', error_at(buf, line + 3), describe(buf))
  vim.cmd('silent undo')
  check('undo: it moves back', error_at(buf, line), describe(buf))

  -- One character within the line: an incremental change behind wide characters.
  local text = lines_of(buf)[line]
  local column = text:find('2.00 GiB', 1, true) - 1
  vim.api.nvim_buf_set_text(buf, line - 1, column, line - 1, column + 1, { '3' })
  local number = hover_at(buf, line, '3.00 GiB')
  check('an edited number is seen at once', number:find('3.00 GiB', 1, true), number)

  vim.api.nvim_buf_set_lines(buf, line - 1, line, false, {})
  check('line deleted: silence', wait(10000, function()
    return #vim.diagnostic.get(buf) == 0
  end), describe(buf))
  vim.api.nvim_buf_set_lines(buf, -1, -1, false, { text })
  check('line appended: the error is back', error_at(buf, line), describe(buf))
end

--- A run that still writes: the file grows on the disk, and the user looks at it again.
local function check_growth()
  local path = logs .. '/growing.log'
  vim.fn.writefile({ 'step 1/3 loss 2.31', 'step 2/3 loss 2.27' }, path)
  local buf = open(path)
  wait(500, function()
    return #vim.diagnostic.get(buf) > 0
  end)
  check('a living run is silent', #vim.diagnostic.get(buf) == 0, describe(buf))
  local oom = lines_of(vim.fn.bufadd(logs .. '/bar.log'))
  local message = oom[#oom]:match('torch%.OutOfMemoryError.*')
  vim.bo[buf].autoread = true
  -- Neovim compares times with the file system's resolution: make sure that it differs.
  vim.uv.sleep(20)
  vim.fn.writefile({ message }, path, 'a')
  vim.cmd.checktime()
  check('the file grew on the disk: marked', error_at(buf, 3), describe(buf))
end

local function check_silence()
  for _, name in ipairs({ 'harmless.log', 'log-notes.txt', 'package.json' }) do
    local buf, ok = open(logs .. '/' .. name)
    check(name .. ': the server attaches', ok, vim.bo[buf].filetype)
    -- An answered request is a barrier: the server has read the file by then.
    symbols_of(buf)
    wait(700, function()
      return #vim.diagnostic.get(buf) > 0
    end)
    check(name .. ': no diagnostics', #vim.diagnostic.get(buf) == 0, describe(buf))
    check(name .. ': no hints', #vim.lsp.inlay_hint.get({ bufnr = buf }) == 0)
  end
end

--- The titles of the lenses of a buffer that Neovim keeps, in their order.
local function lenses_of(buf)
  return vim.iter(vim.lsp.codelens.get(buf)):map(function(lens)
    return lens.command and lens.command.title or ''
  end):totable()
end

local function lens_with(buf, text)
  return wait(10000, function()
    return vim.iter(lenses_of(buf)):any(function(title)
      return title:find(text, 1, true) ~= nil
    end)
  end)
end

--- A model's config: lenses, a change of the GPU by the menu that Neovim shows, completion, a mark.
local function check_config()
  local buf, ok = open(logs .. '/llama/config.json')
  check('config.json: the server attaches', ok, vim.bo[buf].filetype)
  check('a lens says what it is', lens_with(buf, '8.03 B parameters'), vim.inspect(lenses_of(buf)))
  check('a lens a task', lens_with(buf, 'fits 24 GB cards'), vim.inspect(lenses_of(buf)))
  check('hints stand behind keys', hints_at(buf, (find(buf, 'num_key_value_heads'))):find('KV 128 KiB/token', 1, true))

  -- What a person chooses is chosen here: the entry that names the card.
  local asked
  local inputlist, select = vim.fn.inputlist, vim.ui.select
  local function choose(items)
    for i, item in ipairs(items) do
      if tostring(item):find('l40s', 1, true) then
        return i
      end
    end
    return 0
  end
  vim.fn.inputlist = function(items)
    asked = items
    return choose(items) - 1
  end
  vim.ui.select = function(items, options, done)
    local titles = vim.tbl_map(options and options.format_item or tostring, items)
    local index = choose(titles)
    asked = titles
    done(items[index], index)
  end
  client_of(buf):exec_cmd({ command = 'trainwreck.chooseGpu', title = 'change GPU' }, { bufnr = buf })
  check('the GPU is asked for', wait(10000, function()
    return asked ~= nil
  end))
  check('the lenses go by the chosen GPU', lens_with(buf, 'on l40s · fits'), vim.inspect(lenses_of(buf)))
  vim.fn.inputlist, vim.ui.select = inputlist, select

  local line = find(buf, 'torch_dtype')
  local column = lines_of(buf)[line]:find('float16', 1, true) - 1
  vim.api.nvim_buf_set_text(buf, line - 1, column, line - 1, column + 7, { '' })
  local answers = vim.lsp.buf_request_sync(buf, 'textDocument/completion', {
    textDocument = vim.lsp.util.make_text_document_params(buf),
    position = { line = line - 1, character = column },
  }, 10000) or {}
  local offered = {}
  for _, answer in pairs(answers) do
    for _, item in ipairs(answer.result or {}) do
      offered[#offered + 1] = item.label
    end
  end
  check('dtypes are offered', vim.tbl_contains(offered, 'bfloat16'), vim.inspect(offered))
  vim.cmd('silent undo')

  local width = find(buf, 'hidden_size')
  vim.api.nvim_buf_set_lines(buf, width - 1, width, false, { '  "hidden_size": 4100,' })
  line = find(buf, 'num_attention_heads')
  local mark = error_at(buf, line)
  check('heads that do not divide are marked', mark and mark.code == 'config-head-width', describe(buf))
  local hover = hover_at(buf, line, '32')
  check('its page is the hover', hover:find('What to do', 1, true) and hover:find('config-head-width', 1, true), hover)
  vim.cmd('silent undo')
  check('undo: silence', wait(10000, function()
    return #vim.diagnostic.get(buf) == 0
  end), describe(buf))
end

--- The folder with `.trainwreck` is the root: rule pages of the house are used.
local function check_house_rules()
  local buf = open(logs .. '/house/run.log')
  local client = client_of(buf)
  local root = client and client.root_dir or ''
  check('the folder with .trainwreck is the root', vim.fs.basename(root) == 'house', root)
  local found = error_at(buf, 2)
  check('a rule page of the house is used', found and found.code == 'house-quota', describe(buf))
  local hover = hover_at(buf, 2, 'speech')
  check('its page is the hover', hover:find('GPU hours are used up', 1, true), hover)
end

local function check_filetypes()
  local folder = logs .. '/names'
  vim.fn.mkdir(folder, 'p')
  local wanted = {
    { 'run.log', 'log' },
    { 'run.log.1', 'log' },
    { 'slurm-4711.out', 'log' },
    { 'slurm-4711.err', 'log' },
    { 'train.o4711', 'log' },
    { 'stderr', 'log' },
    { 'log_rank_3', 'log' },
    { 'pacman.log', 'pacmanlog' },
    { 'rank_3.txt', 'text' },
    { 'rank_3.py', 'python' },
    { 'rank_3.json', 'json' },
    { 'script.out', 'sh', '#!/bin/sh' },
    { 'patch.log', 'diff', 'diff --git a/x b/x' },
    { 'paper.out', '', '\\BOOKMARK [1][-]{section.1}{Introduction}{}% 1' },
  }
  for _, case in ipairs(wanted) do
    local path = folder .. '/' .. case[1]
    vim.fn.writefile({ case[3] or 'step 1 loss 2.31' }, path)
    vim.cmd.edit(vim.fn.fnameescape(path))
    local got = vim.bo.filetype
    check(('%s is %s'):format(case[1], case[2] == '' and 'left alone' or case[2]), got == case[2], got)
  end
  local program = assert(io.open(folder .. '/a.out', 'wb'))
  program:write('\127ELF\2\1\1\0\0\0\n')
  program:close()
  vim.cmd.edit(vim.fn.fnameescape(folder .. '/a.out'))
  check('a.out is left alone', vim.bo.filetype == '', vim.bo.filetype)
  vim.cmd.edit(vim.fn.fnameescape(folder .. '/rank_3.py'))
  wait(300, function()
    return client_of(0) ~= nil
  end)
  check('no server on a Python file', client_of(0) == nil)
  local _, ok = open(folder .. '/rank_3.txt')
  check('a server on rank_3.txt', ok)
  vim.cmd.edit(vim.fn.fnameescape(logs .. '/catalogue.txt'))
  wait(300, function()
    return client_of(0) ~= nil
  end)
  check('no server on prose', vim.bo.filetype == 'text' and client_of(0) == nil, vim.bo.filetype)
end

local function health_report()
  vim.cmd('silent checkhealth trainwreck')
  local text = table.concat(lines_of(0), '\n')
  vim.cmd('silent bwipeout!')
  return text
end

local function check_health()
  local text = health_report()
  check('checkhealth: no error', not text:find('ERROR') and not text:find('WARNING'), text)
  check('checkhealth: binary and version', text:find('binary: /') and text:find('version: trainwreck'), text)
  check('checkhealth: attached files', text:find('attached to: .*%.log'), text)
end

local function check_stop()
  vim.lsp.enable('trainwreck', false)
  check('the servers stop', wait(10000, function()
    return #vim.lsp.get_clients({ name = 'trainwreck' }) == 0 and #server_exits == 2
  end), vim.inspect(server_exits))
  check('they end in order', vim.iter(server_exits):all(function(how)
    return how == 'code 0, signal 0'
  end), vim.inspect(server_exits))
  vim.lsp.enable('trainwreck')
  local buf = open(logs .. '/encoding.log')
  check('it can be started anew', attached(buf) and error_at(buf, find(buf, 'Tried to allocate')), describe(buf))
end

--- No message that Neovim or its client would call an error was shown on the way.
local function check_messages()
  local messages = vim.api.nvim_exec2('messages', { output = true }).output
  check('no error message', not messages:find('E%d+:') and not messages:find('[Ee]rror'), messages)
end

local scenarios = {}

function scenarios.full()
  check_sample_run()
  check_ranges()
  check_edits()
  check_growth()
  check_silence()
  check_config()
  check_house_rules()
  check_filetypes()
  check_health()
  check_stop()
  check_messages()
end

--- The binary is not there: one plain message, however many logs are opened.
function scenarios.missing()
  vim.cmd.edit(logs .. '/bar.log')
  vim.cmd.edit(logs .. '/harmless.log')
  local messages = vim.api.nvim_exec2('messages', { output = true }).output
  local _, count = messages:gsub('cannot run', '')
  check('missing binary: said once', count == 1, messages)
  check('missing binary: the way out is named', messages:find('trainwreck_cmd', 1, true), messages)
  local text = health_report()
  check('missing binary: checkhealth says so', text:find('is not executable', 1, true), text)
end

function scenarios.disabled()
  check('disabled: no filetype', vim.bo.filetype == '', vim.bo.filetype)
  check('disabled: no server', #vim.lsp.get_clients({ name = 'trainwreck' }) == 0)
end

local ok, problem = xpcall(scenarios[vim.env.SCENARIO], debug.traceback)
if not ok then
  check('the checks ran to their end', false, problem)
end
finish()
