//! Names of kernels as people say them.

/// Arguments of a template that are shown; the rest is folded.
const ARGUMENTS: usize = 3;
const ANONYMOUS: &str = "(anonymous namespace)::";

/// A C++ kernel's name without return type and parameters: the first three arguments of its template
/// without theirs. Other names stay as they are.
pub(crate) fn kernel_name(name: &str) -> String {
    let is_cpp = name.starts_with("void ") || name.contains("::") || name.contains('<');
    if !is_cpp {
        return name.to_owned();
    }
    let known = name.replace(ANONYMOUS, "");
    let known = known.strip_prefix("void ").unwrap_or(&known);
    let (base, arguments) = parts(known);
    let short = match arguments {
        [] => base.to_owned(),
        arguments => {
            let all = split(arguments);
            let shown = all.iter().take(ARGUMENTS).map(|one| argument(one));
            let mut shown: Vec<String> = shown.collect();
            if all.len() > ARGUMENTS {
                shown.push("…".into());
            }
            format!("{base}<{}>", shown.join(", "))
        }
    };
    if base.is_empty() {
        name.to_owned()
    } else {
        short
    }
}

/// What stands before parameters and template, and the characters within the template.
fn parts(name: &str) -> (&str, &[u8]) {
    let end = name.find(['<', '(']).unwrap_or(name.len());
    let (base, rest) = name.split_at(end);
    let Some(inner) = rest.strip_prefix('<') else {
        return (base, &[]);
    };
    let mut depth = 1_i32;
    let bytes = inner.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        depth += opened(bytes, at, *byte);
        if depth == 0 {
            return (base, bytes.get(..at).unwrap_or_default());
        }
    }
    (base, bytes)
}

/// 1 where a bracket opens, -1 where one closes; the head of an arrow does not.
fn opened(all: &[u8], at: usize, byte: u8) -> i32 {
    match byte {
        b'<' | b'(' | b'{' | b'[' => 1,
        b')' | b'}' | b']' => -1,
        b'>' if at.checked_sub(1).and_then(|at| all.get(at)) != Some(&b'-') => -1,
        _ => 0,
    }
}

/// Arguments at the outermost level.
fn split(arguments: &[u8]) -> Vec<String> {
    let (mut depth, mut from, mut out) = (0, 0, Vec::new());
    let mut push = |part: Option<&[u8]>| {
        let text = String::from_utf8_lossy(part.unwrap_or_default());
        out.push(text.trim().to_owned());
    };
    for (at, byte) in arguments.iter().enumerate() {
        depth += opened(arguments, at, *byte);
        if depth == 0 && *byte == b',' {
            push(arguments.get(from..at));
            from = at + 1;
        }
    }
    push(arguments.get(from..));
    out
}

/// An argument without namespaces and arguments of its own: `CUDAFunctor_add<…>`; of a cast its value.
fn argument(text: &str) -> String {
    if let Some((_, value)) = text.rsplit_once(')').filter(|_| text.starts_with('(')) {
        return value.to_owned();
    }
    let (base, inner) = parts(text);
    let base = base.rsplit("::").next().unwrap_or(base);
    if inner.is_empty() {
        base.to_owned()
    } else {
        format!("{base}<…>")
    }
}

#[cfg(test)]
mod tests {
    use super::kernel_name;

    #[test]
    fn names_are_folded() {
        let check = |name: &str, short: &str| assert_eq!(kernel_name(name), short);
        check("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn");
        check(
            "Memcpy HtoD (Pageable -> Device)",
            "Memcpy HtoD (Pageable -> Device)",
        );
        check(
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
            "at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<…>, array<…>>",
        );
        check(
            "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const, 4>(int)",
            "at::native::unrolled_elementwise_kernel<direct_copy_kernel_cuda, 4>",
        );
        check(
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<a, b, c, d>(x)",
            "at::native::multi_tensor_apply_kernel<a, b, c, …>",
        );
        check(
            "void cudnn::ops::nchwToNhwcKernel<float, float, (cudnnKernelDataType_t)2>(int)",
            "cudnn::ops::nchwToNhwcKernel<float, float, 2>",
        );
        check(
            "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
            "ncclDevKernel_Generic",
        );
        check(
            "void unnamed>::gemm_tiled_kernel<32>(const float *)",
            "unnamed>::gemm_tiled_kernel<32>",
        );
        check("<", "<");
    }
}
